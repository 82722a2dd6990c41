"""What the files of a store say about themselves, kept in one file beside them.

Opening each of a million files takes minutes, looking at the folder takes seconds. The index is a copy: a file whose
size or time differs from what it says is read again, and an index that is damaged, lost or cannot be written costs time
alone. So writers on any number of machines need not know of it, and a kill at any moment harms nothing.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hoca.errors import UserError
from hoca.files import replacing

NAME = ".headers.npz"
WORTHWHILE = 1000  # headers that had to be read: fewer are read again in no time


@dataclass(frozen=True, slots=True)
class Header:
    """What a feature file says about itself; reading it touches no feature value."""

    shapes: dict[str, tuple[int, int]]  # modality -> (T, width), in the order in which they were stored
    specification: dict[str, Any]
    absent: dict[str, str]  # modality -> why
    duration: float | None  # seconds
    size: int | None = None  # bytes of the video file they were made from

    @classmethod
    def checked(cls, shapes: Any, specification: Any, absent: Any, duration: Any = None, size: Any = None) -> Header:
        """The same, of types that its readers rely on, or a ValueError."""
        shapes = {name: tuple(shape) for name, shape in shapes.items()}
        if any(len(shape) != 2 or not all(isinstance(each, int) for each in shape) for shape in shapes.values()):
            raise ValueError(f"shapes {shapes}, expected [steps, width]")
        if not (isinstance(specification, dict) and isinstance(absent, dict)):
            raise ValueError("its specification or what is absent is no table")
        if not (isinstance(duration, float | int | None) and isinstance(size, int | None)):
            raise ValueError("its duration or size is no number")
        return cls(shapes, specification, absent, duration, size)


Stamp = tuple[int, int]  # when a file was last written, in nanoseconds, and its bytes


def headers_of(folder: Path, suffix: str, read: Callable[[str], Header]) -> dict[str, Header | UserError]:
    """The header of every file in a folder, by its name without the suffix, sorted; an error in place of a damaged one.

    Equal parts of headers are one object in memory, so that a million of them fit.
    """
    found = _stamps(folder, suffix)
    known = _read(folder / NAME)
    headers: dict[str, Header | UserError] = {}
    fresh = 0
    for id in sorted(found):
        stamp, header = known.get(id, ((0, 0), None))
        if header is None or stamp != found[id]:
            fresh += 1
            try:
                headers[id] = read(id)
            except UserError as error:
                headers[id] = error
        else:
            headers[id] = header
    if fresh >= WORTHWHILE:
        with suppress(OSError):  # a folder that may only be read
            _write(folder / NAME, ((id, found[id], h) for id, h in headers.items() if isinstance(h, Header)))
    return headers


def _stamps(folder: Path, suffix: str) -> dict[str, Stamp]:
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffix) and not entry.name.startswith("."):
                try:
                    status = entry.stat()
                except FileNotFoundError:  # a link to nothing, or replaced at this moment: reading it tells
                    found[entry.name.removesuffix(suffix)] = (0, -1)
                    continue
                found[entry.name.removesuffix(suffix)] = (status.st_mtime_ns, status.st_size)
    return found


def _write(path: Path, rows: Iterable[tuple[str, Stamp, Header]]) -> None:
    ids: list[bytes] = []
    kinds: dict[str, int] = {}
    numbers: list[tuple[int, int, int, int]] = []
    durations: list[float] = []
    for id, stamp, header in rows:
        kind = json.dumps([header.shapes, header.specification, header.absent])
        ids.append(os.fsencode(id))
        numbers.append((*stamp, kinds.setdefault(kind, len(kinds)), -1 if header.size is None else header.size))
        durations.append(np.nan if header.duration is None else header.duration)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            ids=np.frombuffer(b"\0".join(ids), np.uint8),  # no name has a null byte
            kinds=np.frombuffer(json.dumps(list(kinds)).encode(), np.uint8),
            numbers=np.array(numbers, np.int64).reshape(-1, 4),  # time, bytes, kind, size of the video
            durations=np.array(durations, np.float64),
        )


def _read(path: Path) -> dict[str, tuple[Stamp, Header]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            ids = os.fsdecode(file["ids"].tobytes()).split("\0")
            kinds: list[Any] = [json.loads(text) for text in json.loads(file["kinds"].tobytes())]
            numbers, durations = file["numbers"].tolist(), file["durations"].tolist()
        checked = [Header.checked(*kind) for kind in kinds]
        known = {}
        for id, (time, length, kind, size), duration in zip(ids, numbers, durations, strict=True):
            like = checked[kind]
            known[id] = (
                (time, length),
                Header(
                    *(like.shapes, like.specification, like.absent),
                    None if duration != duration else duration,
                    None if size < 0 else size,
                ),
            )
        return known
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        return {}
