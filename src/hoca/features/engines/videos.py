"""The videos that a command names: files, folders with all that is in them, and shell patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hoca.errors import UserError
from hoca.files import printable

# fmt: off
SUFFIXES = {
    ".3g2", ".3gp", ".asf", ".avi", ".flv", ".gif", ".m2ts", ".m2v", ".m4v", ".mkv", ".mov",
    ".mp4", ".mpe", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".ts", ".vob", ".webm", ".wmv",
}
# fmt: on


@dataclass(frozen=True, slots=True)
class VideoFile:
    id: str  # the file's name without its ending
    path: Path


def find(given: Sequence[Path | str]) -> list[VideoFile]:
    """Files as they are given, and of folders those that end like a video; in the order given, sorted within each.

    The same file named twice counts once; two files that would share an id are an error. A link to nothing is among
    them, so that whoever opens it says so; it is never stored, so it takes no id from another.
    """
    videos: dict[str | Path, VideoFile] = {}
    for path in files(given):
        id = path.stem
        key = id if os.path.exists(path) else path.absolute()
        if key not in videos:
            videos[key] = VideoFile(id, path)
        elif os.path.realpath(videos[key].path) != os.path.realpath(path):
            raise UserError(
                f"{printable(videos[key].path)} and {printable(path)} would both be video {printable(id)}: rename one "
                "of them, or extract them into two stores"
            )
    return list(videos.values())


def files(given: Iterable[Path | str]) -> Iterator[Path]:
    """Every file that is meant, in the order given; one that is not there is an error, a link to nothing is a file."""
    for one in given:
        found = [one] if os.path.lexists(one) else sorted(glob.glob(str(one), recursive=True))
        if not found:
            raise UserError(
                f"{printable(one)} is not there: give video files, folders or patterns such as 'clips/*.mp4'"
            )
        for path in map(Path, found):
            yield from _inside(path) if os.path.isdir(path) else [path]


def _inside(folder: Path) -> Iterator[Path]:
    found = False
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES:
                found = True
                yield Path(place, name)
    if not found:
        raise UserError(
            f"no videos in {printable(folder)} (files ending in {', '.join(sorted(SUFFIXES)[:4])}, ...): "
            "name files of another ending themselves"
        )
