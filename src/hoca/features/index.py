"""What the files of a store say about themselves, kept in one file beside them.

Opening each of a million files takes minutes, looking at the folder takes seconds. The index is a copy: a file whose
size, time or inode differs from what it says is read again, and an index that is damaged, lost or cannot be written
costs time alone. So writers on any number of machines need not know of it, and a kill at any moment harms nothing.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import zipfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hoca.errors import UserError
from hoca.features.npy import DAMAGE, UNREADABLE
from hoca.files import replacing
from hoca.garbage import no_garbage_collection

NAME = ".headers.npz"
WORTHWHILE = 1000  # headers that had to be read: fewer are read again in no time
COARSE = 2_000_000_000  # nanoseconds between two ticks of the coarsest clock of a file system
BEYOND = 1 << 63  # what no number of the index reaches


class Header(NamedTuple):
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
        if duration is not None and not 0 <= duration <= sys.float_info.max:
            raise ValueError("its duration is negative or not finite")
        if size is not None and not 0 <= size < BEYOND:
            raise ValueError("its size is none that a file can have")
        return cls(shapes, specification, absent, duration, size)


Stamp = tuple[int, int, int]  # when a file was last written, in nanoseconds, its bytes, and its inode


@no_garbage_collection()
def headers_of(folder: Path, suffix: str, read: Callable[[str], Header]) -> dict[str, Header | UserError]:
    """The header of every file in a folder, by its name without the suffix, sorted; an error in place of a damaged one.

    Equal parts of headers are one object in memory, so that a million of them fit.
    """
    begun = time.time_ns()
    known = _Index.read(folder / NAME)
    current = bytearray(len(known.times))
    fresh: dict[str, Stamp] = {}
    for id, stamp in _stamps(folder, suffix):
        row = known.row(id, stamp)
        if row is None:
            fresh[id] = stamp
        else:
            current[row] = True
    kinds: dict[str, Header] = {}
    headers: dict[str, Header | UserError] = {}
    # What the index knows is sorted in it already, which makes sorting all of them a matter of one look at each.
    for id in sorted([*(id for id, row in known.rows.items() if current[row]), *fresh]):
        try:
            headers[id] = _sharing(read(id), kinds) if id in fresh else known.header(id)
        except UserError as error:
            headers[id] = error
    if len(fresh) >= WORTHWHILE and _is_file_or_nothing(folder / NAME):
        with suppress(OSError, UserError):  # a folder that may only be read, a full disk
            rows = (
                (id, fresh.get(id) or known.stamp(id), header)
                for id, header in headers.items()
                if isinstance(header, Header)
            )
            # A file so new may be written again within the same tick of its clock: its header is read once more. So is
            # that of a file from before 1970, whose time may not fit.
            _write(folder / NAME, (row for row in rows if 0 <= row[1][0] < begun - COARSE))
    return headers


def _stamps(folder: Path, suffix: str) -> Iterator[tuple[str, Stamp]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(suffix) and not name.startswith("."):
                try:
                    status = entry.stat()
                except FileNotFoundError:  # a link to nothing, or replaced at this moment: reading it tells
                    yield name.removesuffix(suffix), (0, -1, 0)
                    continue
                yield name.removesuffix(suffix), (status.st_mtime_ns, status.st_size, status.st_ino % BEYOND)


def _is_file_or_nothing(path: Path) -> bool:
    """Whether an index may be read and written there: to open a pipe would wait for ever."""
    return os.path.isfile(path) or not os.path.exists(path)


def _sharing(header: Header, kinds: dict[str, Header]) -> Header:
    """The same header, made of the parts of an earlier one like it."""
    like = kinds.setdefault(_kind(header), header)
    return Header(like.shapes, like.specification, like.absent, header.duration, header.size)


def _kind(header: Header) -> str:
    return json.dumps([header.shapes, header.specification, header.absent])


@dataclass(frozen=True)
class _Index:
    """What the file holds: of each id its row, of each row six numbers; a Python object for each would take memory."""

    rows: Mapping[str, int]
    kinds: Sequence[Header]
    times: memoryview
    lengths: memoryview
    inodes: memoryview
    kind: memoryview
    sizes: memoryview
    durations: memoryview

    def stamp(self, id: str) -> Stamp:
        row = self.rows[id]
        return self.times[row], self.lengths[row], self.inodes[row]

    def row(self, id: str, stamp: Stamp) -> int | None:
        """That of a file which is as it was."""
        row = self.rows.get(id)
        if row is None or self.times[row] != stamp[0] or self.lengths[row] != stamp[1] or self.inodes[row] != stamp[2]:
            return None
        return row

    def header(self, id: str) -> Header:
        row = self.rows[id]
        like, duration, size = self.kinds[self.kind[row]], self.durations[row], self.sizes[row]
        return Header(
            *(like.shapes, like.specification, like.absent),
            None if duration != duration else duration,
            None if size < 0 else size,
        )

    @classmethod
    def read(cls, path: Path) -> _Index:
        """An empty one where the file is not there or damaged."""
        try:
            if not _is_file_or_nothing(path):
                raise ValueError("no file")
            with np.load(path, allow_pickle=False) as file:
                if any(part.compress_type != zipfile.ZIP_STORED for part in file.zip.infolist()):
                    raise ValueError("compressed, which no index is: what it takes in memory is not known")
                ids = os.fsdecode(file["ids"].tobytes()).split("\0")
                kinds = [Header.checked(*json.loads(text)) for text in json.loads(file["kinds"].tobytes())]
                numbers = file["numbers"].astype(np.int64, casting="safe").reshape(len(ids), 5)
                durations = file["durations"].astype(np.float64, casting="safe").reshape(len(ids))
            if len(ids) and not 0 <= numbers[:, 3].min() <= numbers[:, 3].max() < len(kinds):
                raise ValueError("a kind that is not there")
            columns = [np.ascontiguousarray(column).data for column in (*numbers.T, durations)]
            return cls({id: row for row, id in enumerate(ids)}, kinds, *columns)
        except (*DAMAGE, *UNREADABLE, IndexError, AttributeError):
            return cls({}, [], *[memoryview(b"")] * 6)


def _write(path: Path, rows: Iterable[tuple[str, Stamp, Header]]) -> None:
    ids: list[bytes] = []
    texts: dict[str, int] = {}
    kinds: dict[tuple[int, int, int], int] = {}  # by which objects a header is made of, which many share
    numbers = array("q")  # time, bytes, inode, kind, size of the video
    durations = array("d")
    for name, stamp, header in rows:
        parts = id(header.shapes), id(header.specification), id(header.absent)
        if parts not in kinds:
            kinds[parts] = texts.setdefault(_kind(header), len(texts))
        ids.append(os.fsencode(name))
        numbers.extend((*stamp, kinds[parts], -1 if header.size is None else header.size))
        durations.append(math.nan if header.duration is None else header.duration)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            ids=np.frombuffer(b"\0".join(ids), np.uint8),  # no name has a null byte
            kinds=np.frombuffer(json.dumps(list(texts)).encode(), np.uint8),
            numbers=np.frombuffer(numbers, np.int64).reshape(-1, 5),
            durations=np.frombuffer(durations, np.float64),
        )
