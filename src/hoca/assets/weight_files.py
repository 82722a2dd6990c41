"""Read the arrays of a checkpoint that a user provides. Nothing in it is executed: no pickle beyond plain tensors."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from hoca.errors import UserError
from hoca.isolated import Isolated

DEEPEST = 32  # groups within groups
MOST_BYTES = 1 << 30  # of all arrays in HDF5, which a file of no size can claim to hold
MOST_ARRAYS = 10_000
KINDS = ".safetensors, .pt or .pth, .npz, .h5"


def read(path: Path) -> dict[str, np.ndarray]:
    """All arrays of the file by name; its ending says what it is."""
    readers: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
        ".safetensors": load_file,
        ".pt": _torch,
        ".pth": _torch,
        ".bin": _torch,
        ".npz": _npz,
        ".h5": _h5,
        ".hdf5": _h5,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: a checkpoint of an unknown kind: give {KINDS}")
    try:
        arrays = reader(path)
    except (pickle.UnpicklingError, RuntimeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise UserError(f"{path} holds more than tensors, or is damaged ({reason}): nothing of it was run") from None
    except (SafetensorError, ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, UserError):
            raise
        reason = str(error).split("\n", 1)[0]
        raise UserError(f"{path} is not a checkpoint that can be read ({reason}): fetch it again") from None
    if not arrays:
        raise UserError(f"{path} holds no weights: give the published file")
    return arrays


def _torch(path: Path) -> dict[str, np.ndarray]:
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # of a pickle that it then refuses
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damage shows in as many ways as there are instructions
        raise ValueError(str(error) or type(error).__name__) from None
    while isinstance(state, dict) and isinstance(state.get("state_dict", state.get("model")), dict):
        state = state.get("state_dict", state.get("model"))
    if not isinstance(state, dict):
        raise ValueError(f"a {type(state).__name__}, expected named tensors")
    return {
        str(name).removeprefix("module."): value.float().numpy() if value.is_floating_point() else value.numpy()
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
    }


def _npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError("a single array, expected named ones")
        return {name: arrays[name] for name in arrays.files}


def _h5(path: Path) -> dict[str, np.ndarray]:
    try:
        import h5py  # noqa: F401
    except ImportError:
        raise UserError(f"{path}: reading HDF5 needs h5py: pip install 'hoca[h5]'") from None
    with Isolated("hoca.assets.weight_files:h5_answers", path) as ask:
        return {name: ask("array", name) for name in ask("names")}


def h5_answers(path: Path) -> Callable[..., Any]:
    """What `hoca.isolated` asks: the `names` of all arrays, and an `array`."""
    import h5py

    found: dict[str, Any] = {}
    with _readable(path):
        _gather(h5py.File(path, "r"), "", found, 0)

    def answer(what: str, name: str = "") -> Any:
        with _readable(path):
            return list(found) if what == "names" else found[name][()]

    return answer


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """h5py complains of damage in many ways."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a checkpoint that can be read ({reason}): fetch it again") from None


def _gather(group: Any, start: str, found: dict[str, Any], depth: int) -> None:
    """The numbers of a group and of those within it; what lies in another file is refused, not read."""
    import h5py

    if depth > DEEPEST:
        raise ValueError("groups within groups without end")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{name} points elsewhere")
        item = group[name]
        if isinstance(item, h5py.Group):
            _gather(item, f"{start}{name}/", found, depth + 1)
        elif isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu":
            if item.is_virtual or item.external:
                raise ValueError(f"the values of {name} lie in another file")
            found[start + name] = item
            if len(found) > MOST_ARRAYS or sum(each.nbytes for each in found.values()) > MOST_BYTES:
                raise ValueError(f"up to {name} it claims more arrays, or larger ones, than any network has")
