"""Look for inputs that hoca's own parsers stumble over, guided by the lines that each input reaches (atheris).

    python benchmarks/fuzz_parsers.py                         # a minute for each parser -> results/fuzz-parsers.csv
    python benchmarks/fuzz_parsers.py --parser recipe --seconds 600

What was tried is kept in fuzz-parsers/ and is where the next run starts. An input that a parser does not answer with a
result or a `UserError` is copied to tests/fuzzed/, which the tests replay for ever. HDF5 is read by a C library that
may loop: there an input that takes too long is no find, since hoca reads such files in a process with a limit.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from parsers import PARSERS, ROOT, parse, seeds

FOUND = ROOT / "tests" / "fuzzed"
LONGEST = 20  # seconds for one input
OUT_OF_TIME = 70  # libFuzzer's exit code


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parser", choices=[*PARSERS])
    parser.add_argument("--seconds", type=int, default=60, help="for each parser")
    parser.add_argument("--corpus", type=Path, default=ROOT / "fuzz-parsers")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "fuzz-parsers.csv")
    parser.add_argument("--inside", choices=[*PARSERS], help=argparse.SUPPRESS)  # the process that atheris takes over
    options, rest = parser.parse_known_args()
    if options.inside:
        inside(options.inside, rest)
        return
    chosen = [options.parser] if options.parser else [*PARSERS]
    rows = [outside(name, options) for name in chosen]
    write(rows, options.out)
    sys.exit(any(row["found"] for row in rows))


def inside(name: str, arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["hoca"]), tempfile.TemporaryDirectory(prefix="parser-") as folder:
        parse(name, b"", Path(folder))  # imports what it needs

        def one(content: bytes) -> None:
            parse(name, content, Path(folder))

        atheris.Setup([sys.argv[0], *arguments], one)
        atheris.Fuzz()


def outside(name: str, options: argparse.Namespace) -> dict[str, object]:
    corpus = options.corpus / name
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="seeds-") as folder:
        for content in seeds(name, Path(folder)):
            (corpus / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)
        limits = [f"-max_total_time={options.seconds}", f"-timeout={LONGEST}", "-rss_limit_mb=4096", "-max_len=65536"]
        command = [sys.executable, __file__, "--inside", name, *limits, f"-artifact_prefix={folder}/", str(corpus)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        found = [path for path in Path(folder).glob("*-*") if path.name.startswith(("crash", "timeout", "oom"))]
        if name == "hdf5" and done.returncode == OUT_OF_TIME:
            found = []
        for path in found:
            FOUND.mkdir(exist_ok=True)
            (FOUND / f"{name}-{path.name[-12:]}").write_bytes(path.read_bytes())
            print(f"FOUND {name}: {[line for line in done.stderr.splitlines() if 'Error' in line][-1:]}", flush=True)
    tried = re.findall(r"^#(\d+)\s", done.stderr, re.MULTILINE)
    reached = re.findall(r"cov: (\d+)", done.stderr)
    row = {"parser": name, "inputs": int(tried[-1]) if tried else 0, "reached": int(reached[-1]) if reached else 0}
    print(f"{name}: {row['inputs']} inputs, {row['reached']} edges, {len(found)} finds", flush=True)
    if not tried:
        sys.exit(f"{name}: {done.stderr[-500:]}")
    return row | {"seconds": options.seconds, "found": len(found)}


def write(rows: list[dict[str, object]], out: Path) -> None:
    """In place of the rows of the same parsers; those of the others stay."""
    from hoca.files import replacing

    if out.is_file():
        with open(out, newline="", encoding="utf-8") as file:
            tried = {row["parser"] for row in rows}
            rows = [*rows, *(row for row in csv.DictReader(file) if row["parser"] not in tried)]
    rows.sort(key=lambda row: [*PARSERS].index(str(row["parser"])))
    with replacing(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
