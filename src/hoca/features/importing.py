"""Features that others made into a feature store: an HDF5 file or a folder of numpy arrays for each modality."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hoca.errors import UserError
from hoca.features import hdf5, npy
from hoca.features.store import FeatureStore
from hoca.files import printable, sha256_of
from hoca.progress import say, track


class Source(Protocol):
    """The features of one modality."""

    origin: dict[str, Any]  # where they are from, as a specification tells it

    def __iter__(self) -> Iterator[str]: ...  # video ids
    def __contains__(self, id: object) -> bool: ...
    def __getitem__(self, id: str) -> np.ndarray: ...  # [T, width] or [width]


class ArrayFolder:
    """A folder with a .npy or .npz file per video, named by its id, that holds one array."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Path] = {}
        for file in sorted(folder.iterdir()):
            if file.suffix.lower() not in npy.KINDS or file.name.startswith("."):
                continue
            if file.stem in self._files:
                raise UserError(f"{self._files[file.stem]} and {file.name} would be the same video: keep one of them")
            self._files[file.stem] = file
        if not self._files:
            raise UserError(f"{folder} holds no features: put a file <video id>.npy or .npz per video into it")
        content = hashlib.sha256()
        for file in track(self._files.values(), total=len(self._files), what=folder.name):
            digest = sha256_of(file) if file.is_file() else "no file"  # which is told when it is read
            content.update(f"{printable(file.name)} {digest}\n".encode())
        self.origin = hdf5.imported(folder, content.hexdigest())

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __contains__(self, id: object) -> bool:
        return id in self._files

    def __getitem__(self, id: str) -> np.ndarray:
        return npy.read_array(self._files[id])


def import_features(sources: Mapping[str, Path], store: FeatureStore) -> dict[str, int]:
    """Store the features of `sources` (modality → HDF5 file or folder of .npy and .npz files).

    Says how many videos were imported, were there already, and failed. Those that fail cost themselves: a line each.
    The specification names the file or folder that features came from, or how they were made if hoca exported them.
    """
    if not sources:
        raise UserError("name what to import: image=FILE.h5 motion=FOLDER audio=FOLDER")
    counts = {"imported": 0, "skipped": 0, "failed": 0}
    with ExitStack() as stack:
        opened = {name: stack.enter_context(_opened(name, path)) for name, path in sources.items()}
        specification = {name: source.origin for name, source in opened.items()}
        ids = sorted({id for source in opened.values() for id in source})
        for id in track(ids, total=len(ids), what="importing"):
            if store.current(id, specification):
                counts["skipped"] += 1
                continue
            try:
                found = {name: _steps(source[id], id, sources[name]) for name, source in opened.items() if id in source}
                absent = {name: f"not in {path.name}" for name, path in sources.items() if name not in found}
                store.write(id, found, specification=specification, absent=absent)
            except UserError as error:
                say(f"hoca: {printable(str(error))}")
                counts["failed"] += 1
            else:
                counts["imported"] += 1
    return counts


@contextmanager
def _opened(name: str, path: Path) -> Iterator[Source]:
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot name a modality: use letters, digits and _, as in image=FILE")
    if path.is_dir():
        yield ArrayFolder(path)
    elif path.is_file():
        with hdf5.opened(path) as file:
            yield file
    else:
        raise UserError(f"{path} is not there: give an HDF5 file or a folder of .npy files with the {name} features")


def _steps(values: np.ndarray, id: str, path: Path) -> np.ndarray:
    """As a store has them: [T, width], one vector a single step."""
    with np.errstate(over="ignore"):  # what is infinite then is refused by name
        values = np.atleast_2d(values.astype(np.float32))
    if values.ndim != 2 or 0 in values.shape:
        raise UserError(f"{path}: features of {id} have shape {list(values.shape)}, expected [T, width]")
    return values
