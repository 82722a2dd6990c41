"""One HDF5 file of features, read in a process of its own: a damaged one can make the C library loop.

Layouts that are read, told apart by their shapes:
- `datasets`: one dataset per video, named by its id, [T, width] or [width];
- the same with a group per video that holds that one dataset;
- `array`: one array [N, T, width] or [N, width], the N ids as a dataset of text, and, where lengths differ, the N
  lengths as a dataset of integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hoca.errors import UserError

MADE = "hoca"  # attribute of an exported file: how its features were made, as JSON
MOST_BYTES = 1 << 28  # of the features of one video, and of what is unpacked at once
MOST_VIDEOS = 1 << 26


def answers(path: Path) -> Any:
    """What `hoca.isolated` asks: `ids`, `made` (how hoca made them, None if it did not), `features` of an id."""
    import h5py

    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise UserError(f"{path} is not an HDF5 file that can be read ({error})") from None
    found = Reader(file, path)

    def answer(what: str, id: str = "") -> Any:
        if what == "features":
            return found[id]
        return list(found) if what == "ids" else _made(file, path)

    return answer


class Reader:
    """An HDF5 file of one modality: video id → features [T, width] or [width]."""

    def __init__(self, file: Any, path: Path) -> None:
        self.path = path
        with _readable(path):
            self._find(file)

    def _find(self, file: Any) -> None:
        path = self.path
        plain = dict(_datasets(file, path))
        ids = [name for name, data in plain.items() if _is_text(data)]
        self._array: Any = None
        if ids:
            self._read_array(plain, ids[0])
        else:
            self._places: dict[str, Any] = plain | dict(_grouped(file, path))
        if not self._places:
            raise UserError(f"{path} holds no features: expected a dataset [T, width] per video, or one array and ids")

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, id: str) -> np.ndarray:
        place = self._places[id]
        if self._array is None:
            return _read(place, self.path)
        row, length = place
        values = _read(self._array, self.path, row)
        return values[:length] if values.ndim == 2 else values

    def _read_array(self, plain: dict[str, Any], ids: str) -> None:
        count = len(plain[ids])
        if count > MOST_VIDEOS:
            raise UserError(f"{self.path}: {ids!r} claims {count} ids: is the file damaged?")
        arrays = [name for name, data in plain.items() if data.ndim in (2, 3) and len(data) == count]
        if len(arrays) != 1:
            raise UserError(
                f"{self.path}: {count} ids in {ids!r} and {len(arrays)} arrays of that length "
                f"({', '.join(arrays) or 'none'}), expected one: split the file"
            )
        self._array = plain[arrays[0]]
        integers = [d for d in plain.values() if d.ndim == 1 and d.dtype.kind in "iu" and len(d) == count]
        steps = self._array.shape[1] if self._array.ndim == 3 else 1
        lengths = _read(integers[0], self.path) if integers else np.full(count, steps)
        if ((lengths < 0) | (lengths > steps)).any():
            raise UserError(f"{self.path}: lengths outside 0 to {steps}, the steps of {arrays[0]!r}")
        names = [
            name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            for name in _read(plain[ids], self.path)
        ]
        if len(set(names)) != count:
            raise UserError(f"{self.path}: ids in {ids!r} occur more than once")
        self._places = {name: (row, int(n)) for row, (name, n) in enumerate(zip(names, lengths, strict=True)) if n}


def _datasets(group: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Numeric and text datasets directly in a group; those whose values lie in another file are refused."""
    import h5py

    for name in group:
        data = _item(group, name, path)
        if isinstance(data, h5py.Dataset) and data.shape and (data.dtype.kind in "fiu" or _is_text(data)):
            yield name, data


def _item(group: Any, name: str, path: Path) -> Any:
    """A member of a group; one whose values lie in another file is refused, which would otherwise be read unasked."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise UserError(f"{path}: {name} points elsewhere: copy its data into this file under that name")
    item = group[name]
    if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
        raise UserError(f"{path}: the values of {name} lie in another file: copy them into this one")
    return item


def _grouped(file: Any, path: Path) -> Iterator[tuple[str, Any]]:
    import h5py

    for id in file:
        if isinstance(file[id], h5py.Group):
            inside = list(_datasets(file[id], path))
            if len(inside) != 1:
                names = ", ".join(name for name, _ in inside) or "none"
                raise UserError(f"{path}: the group {id} holds {len(inside)} datasets ({names}), expected one")
            yield id, inside[0][1]


def _read(data: Any, path: Path, row: Any = ()) -> np.ndarray:
    rows = 1 if row == () else max(data.shape[0], 1)
    chunk = prod(data.chunks or ()) * data.dtype.itemsize
    if data.nbytes // rows > MOST_BYTES or chunk > MOST_BYTES:
        raise UserError(f"{path}: {data.name} claims shape {list(data.shape)}, too large for features: is it damaged?")
    try:
        return np.asarray(data[row])
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{path}: {data.name} cannot be read ({error}): fetch the file again") from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """h5py complains of damage in many ways."""
    try:
        yield
    except UserError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, AttributeError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} is an HDF5 file that cannot be read ({reason}): fetch it again") from None


def _is_text(data: Any) -> bool:
    import h5py

    return data.ndim == 1 and (data.dtype.kind == "S" or h5py.check_string_dtype(data.dtype) is not None)


def _made(file: Any, path: Path) -> dict[str, Any] | None:
    """How hoca made the features, where it wrote this file."""
    with _readable(path):
        made = file.attrs.get(MADE)
    try:
        known = json.loads(made) if isinstance(made, str) else None
    except (ValueError, RecursionError):
        return None
    return known if isinstance(known, dict) else None
