"""The videos that a command names: files, folders with all that is in them, and shell patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hoca.errors import UserError
from hoca.files import printable

# fmt: off
SUFFIXES = {
    ".3g2", ".3gp", ".asf", ".avi", ".flv", ".gif", ".m2ts", ".m2v", ".m4v", ".mkv", ".mov",
    ".mp4", ".mpe", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".ts", ".vob", ".webm", ".wmv",
}
# fmt: on


class VideoFile(NamedTuple):
    id: str  # the file's name without its ending
    file: str  # where it is: a million strings are made sooner than as many `Path`s
    size: int | None = None  # bytes; None = it cannot be looked at

    @property
    def path(self) -> Path:
        return Path(self.file)


def find(given: Sequence[Path | str]) -> list[VideoFile]:
    """Files as they are given, and of folders those that end like a video; in the order given, sorted within each.

    The same file named twice counts once; two files that would share an id are an error. Links to nothing come last,
    so that whoever opens them says so; they are never stored, so they take no id from another.
    """
    videos: dict[str, VideoFile] = {}
    lost: dict[str, VideoFile] = {}
    for file in files(given):
        id = _stem(file)
        try:
            size = os.stat(file).st_size
        except OSError:
            lost.setdefault(os.path.abspath(file), VideoFile(id, file))
            continue
        other = videos.setdefault(id, VideoFile(id, file, size))
        if other.file != file and os.path.realpath(other.file) != os.path.realpath(file):
            raise UserError(
                f"{printable(other.file)} and {printable(file)} would both be video {printable(id)}: rename one of "
                "them, or extract them into two stores"
            )
    return [*videos.values(), *lost.values()]


def _stem(file: str) -> str:
    """As `Path.stem`."""
    name = os.path.basename(file)
    stem, _, ending = name.rpartition(".")
    return stem if stem and ending else name


def files(given: Iterable[Path | str]) -> Iterator[str]:
    """Every file that is meant, in the order given; one that is not there is an error, a link to nothing is a file."""
    for one in given:
        found = [os.fspath(one)] if os.path.lexists(one) else sorted(glob.glob(os.fspath(one), recursive=True))
        if not found:
            raise UserError(
                f"{printable(one)} is not there: give video files, folders or patterns such as 'clips/*.mp4'"
            )
        for path in found:
            yield from _inside(path) if os.path.isdir(path) else [path]


def _inside(folder: str) -> Iterator[str]:
    found = False
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        before = os.path.join(place, "")
        for name in sorted(names):
            if name[name.rfind(".") :].lower() in SUFFIXES and not name.startswith("."):
                found = True
                yield before + name
    if not found:
        raise UserError(
            f"no videos in {printable(folder)} (files ending in {', '.join(sorted(SUFFIXES)[:4])}, ...): "
            "name files of another ending themselves"
        )
