"""Write constraints-hashed.txt: the versions of constraints.txt with the SHA-256 of their files, for `pip install
--require-hashes`.

python benchmarks/hash_constraints.py

Nothing is downloaded: the package indexes configured for pip tell the hash of each file. Files in local folders that
pip is told to look in (`find-links`) are hashed themselves, such as a CPU build of torch. Kept are the files for
CPython 3.11 to 3.14 on Linux, and of a package without such files its source.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoca.assets.index import finder, sources
from hoca.files import replacing, sha256_of

ROOT = Path(__file__).resolve().parent.parent
PINNED, HASHED = ROOT / "constraints.txt", ROOT / "constraints-hashed.txt"
PYTHON = r"(cp31[1-4]|cp3\d*-abi3|py3|py2\.py3)"
PLATFORM = r"(any|manylinux\w*|linux)(_x86_64|_aarch64)?"
HEAD = """\
# constraints.txt with the SHA-256 of each file, for CPython 3.11 to 3.14 on Linux; written by
# benchmarks/hash_constraints.py. Less the groups that a machine does not need: pip install --require-hashes -r FILE,
# then hoca itself: pip install --no-deps --no-build-isolation -e ."""


def main() -> None:
    lines = [HEAD]
    find = finder(sources())
    for line in PINNED.read_text(encoding="utf-8").splitlines()[1:]:
        lines.append(hashed(line, find) if "==" in line else line)
    with replacing(HASHED) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{sum('--hash' in line for line in lines)} packages -> {HASHED.name}")


def hashed(requirement: str, find: Any) -> str:
    links = [package.link for package in find.find_matches(requirement, allow_yanked=True)]
    wheels = [link for link in links if re.search(rf"-{PYTHON}[\w.]*-.*{PLATFORM}.*\.whl$", link.filename)]
    hashes = {digest(link) for link in wheels or [each for each in links if not each.filename.endswith(".whl")]}
    if not hashes:
        sys.exit(f"{requirement}: the configured package indexes tell no hash of its files")
    return requirement + "".join(f" \\\n    --hash=sha256:{value}" for value in sorted(hashes))


def digest(link: Any) -> str:
    if link.is_file:
        return sha256_of(link.file_path)
    found = re.search(r"sha256=([0-9a-f]{64})", urlsplit(link.url).fragment)
    return found[1] if found else sys.exit(f"{link.filename}: the package index does not tell its hash")


if __name__ == "__main__":
    main()
