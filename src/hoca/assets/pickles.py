"""Read a pickle of nested dicts and lists of numpy arrays, and nothing else: no other name in it is ever looked up."""

from __future__ import annotations

import io
import pickle
from typing import IO, Any

import numpy as np

from hoca.errors import UserError

_reconstruct: Any = np.zeros(0).__reduce__()[0]
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
}


class _ArraysOnly(pickle._Unpickler):
    """The unpickler in Python: that in C takes memory for as many values as a damaged file may claim to remember."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise UserError(
                f"the pickle wants {module}.{name}: only numpy arrays are read, nothing of it was run"
            ) from None


def load(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays of a pickle, or of an object `.npy` file around one, by the path to them: `params/conv/kernel`."""
    content = file.read()
    arrays: dict[str, np.ndarray] = {}
    try:
        # latin1 is how arrays that Python 2 pickled are read.
        value = _ArraysOnly(io.BytesIO(_unwrapped(content)), encoding="latin1").load()
        if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0:
            value = value.item()
        _flatten(value, "", arrays)
    except UserError:
        raise
    except Exception as error:  # damage shows in as many ways as there are instructions
        raise UserError(f"the pickle is damaged ({type(error).__name__}): fetch it again") from None
    return arrays


def _unwrapped(content: bytes) -> bytes:
    """The pickle within an `.npy` file; any other content as it is."""
    if not content.startswith(b"\x93NUMPY"):
        return content
    header = io.BytesIO(content)
    np.lib.format.read_magic(header)
    np.lib.format.read_array_header_1_0(header)
    return content[header.tell() :]


def _flatten(value: Any, path: str, arrays: dict[str, np.ndarray]) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        arrays[path] = value
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inner, f"{path}/{key}" if path else str(key), arrays)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _flatten(inner, f"{path}/{number}" if path else str(number), arrays)
    else:
        raise UserError(f"the pickle holds {type(value).__name__} at {path or 'its top'}: only numpy arrays are read")
