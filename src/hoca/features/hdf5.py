"""The community's HDF5 feature files, one file per modality, into a feature store and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hoca.errors import UserError
from hoca.features.hdf5_file import MADE
from hoca.features.store import FeatureStore
from hoca.files import replacing, sha256_of
from hoca.isolated import Isolated
from hoca.progress import track

Layout = Literal["datasets", "array"]
ENDING = ".h5"


class FeatureFile:
    """An HDF5 file of one modality: video id → features [T, width] or [width]. It is read in a process of its own."""

    def __init__(self, ask: Isolated, path: Path) -> None:
        self._ask = ask
        self._ids = dict.fromkeys(ask("ids"))
        self.origin: dict[str, Any] = ask("made") or imported(path, sha256_of(path))

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def __getitem__(self, id: str) -> np.ndarray:
        return self._ask("features", id)


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
def opened(path: Path) -> Iterator[FeatureFile]:
    _h5py()
    with Isolated("hoca.features.hdf5_file:answers", path) as ask:
        yield FeatureFile(ask, path)


def imported(path: Path, sha256: str) -> dict[str, Any]:
    """What a specification tells of features that hoca did not make."""
    return {"backbone": "imported", "weights": None, "file": path.name, "sha256": sha256}


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise UserError("HDF5 files need h5py: pip install 'hoca[h5]'") from None
    return h5py
