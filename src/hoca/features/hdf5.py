"""The community's HDF5 feature files, one file per modality, into a feature store and back.

Layouts that are read, told apart by their shapes:
- `datasets`: one dataset per video, named by its id, [T, width] or [width];
- the same with a group per video that holds that one dataset;
- `array`: one array [N, T, width] or [N, width], the N ids as a dataset of text, and, where lengths differ, the N
  lengths as a dataset of integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hoca.errors import UserError
from hoca.features.store import FeatureStore
from hoca.files import replacing, sha256_of
from hoca.progress import track

Layout = Literal["datasets", "array"]
MADE = "hoca"  # attribute of an exported file: how its features were made, as JSON
ENDING = ".h5"
MOST_BYTES = 1 << 30  # of the features of one video, and of what is unpacked at once
MOST_VIDEOS = 1 << 26


class FeatureFile:
    """An HDF5 file of one modality: video id → features [T, width]."""

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

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __getitem__(self, id: str) -> np.ndarray:
        place = self._places[id]
        if self._array is None:
            values = _read(place, self.path)
        else:
            row, length = place
            values = _read(self._array, self.path, row)
            values = values[:length] if values.ndim == 2 else values
        with np.errstate(over="ignore"):  # what is infinite then is refused by name
            values = np.atleast_2d(values.astype(np.float32))
        if values.ndim != 2 or 0 in values.shape:
            raise UserError(f"{self.path}: features of {id} have shape {list(values.shape)}, expected [T, width]")
        return values

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


def import_features(files: Mapping[str, Path], store: FeatureStore) -> dict[str, int]:
    """Store the features of `files` (modality → HDF5 file); says how many videos were written and were there already.

    The specification says which file they came from, or how they were made if hoca wrote that file itself.
    """
    if not files:
        raise UserError("name the HDF5 files to import: image=FILE motion=FILE audio=FILE")
    counts = {"imported": 0, "skipped": 0}
    with _opened(files) as opened:
        specification = {name: _origin(file, files[name]) for name, file in opened.items()}
        sources = {name: FeatureFile(file, files[name]) for name, file in opened.items()}
        ids = sorted({id for source in sources.values() for id in source})
        for id in track(ids, total=len(ids), what="importing"):
            if store.current(id, specification):
                counts["skipped"] += 1
                continue
            found = {name: source[id] for name, source in sources.items() if id in source}
            absent = {name: f"not in {path.name}" for name, path in files.items() if name not in found}
            store.write(id, found, specification=specification, absent=absent)
            counts["imported"] += 1
    return counts


def export_features(store: FeatureStore, out: Path, layout: Layout = "datasets") -> list[Path]:
    """One file `<modality>.h5` in the folder `out` for each modality of the store, float32."""
    h5py = _h5py()
    specification = store.specification
    written = []
    for name in store.widths:
        path = out / f"{name}{ENDING}"
        ids = [id for id, header in store.headers.items() if name in header.shapes]
        with replacing(path) as temporary, h5py.File(temporary, "w") as file:
            file.attrs[MADE] = json.dumps(specification.get(name))
            if layout == "array":
                _write_array(file, store, name, ids)
            else:
                for id in track(ids, total=len(ids), what=path.name):
                    file.create_dataset(id, data=store[id][name])
        written.append(path)
    return written


def _write_array(file: Any, store: FeatureStore, name: str, ids: Sequence[str]) -> None:
    steps, width = store.steps[name], store.widths[name]
    features = file.create_dataset("features", (len(ids), steps, width), dtype=np.float32)
    file["ids"] = [id.encode("utf-8") for id in ids]
    file["lengths"] = [store.headers[id].shapes[name][0] for id in ids]
    for row, id in enumerate(track(ids, total=len(ids), what=name)):
        values = store[id][name]
        features[row, : len(values)] = values


@contextmanager
def _opened(files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """Modality → open file."""
    h5py = _h5py()
    with ExitStack() as stack:
        opened = {}
        for name, path in files.items():
            if not name.isidentifier():
                raise UserError(f"{name!r} cannot name a modality: use letters, digits and _, as in image=FILE")
            if not path.is_file():
                raise UserError(f"{path} is not a file: give the HDF5 file of the {name} features")
            try:
                opened[name] = stack.enter_context(h5py.File(path, "r"))
            except OSError as error:
                raise UserError(f"{path} is not an HDF5 file that can be read ({error})") from None
        yield opened


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


def _origin(file: Any, path: Path) -> dict[str, Any]:
    with _readable(path):
        made = file.attrs.get(MADE)
    if isinstance(made, str):
        try:
            known = json.loads(made)
        except (ValueError, RecursionError):
            known = None
        if isinstance(known, dict):
            return known
    return {"backbone": "imported", "weights": None, "file": path.name, "sha256": sha256_of(path)}


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise UserError("HDF5 files need h5py: pip install 'hoca[h5]'") from None
    return h5py
