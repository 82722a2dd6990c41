"""Arrays that others stored with numpy: what a file claims is compared with its size before it is read."""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from hoca.errors import UserError

KINDS = (".npy", ".npz")
MOST_BYTES = 1 << 30  # of one array
# numpy parses a header as Python does a literal, and complains in as many ways.
DAMAGE = (ValueError, TypeError, KeyError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError, OverflowError)
UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError)


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether it is in Fortran's order, and type."""
    version = np.lib.format.read_magic(file)
    readers: dict[Any, Any] = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"npy version {version}")
    return readers[version](file)


def read_array(path: Path) -> np.ndarray:
    """The one array of a .npy or .npz file; nothing is unpickled."""
    if not path.is_file():  # to open a pipe would wait for ever
        raise UserError(f"{path} is not a file: give .npy or .npz files")
    try:
        with open(path, "rb") as file:
            if path.suffix.lower() == ".npy":
                return _read(file, os.fstat(file.fileno()).st_size, path)
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if len(members) != 1:
                    names = ", ".join(member.filename.removesuffix(".npy") for member in members[:5])
                    raise UserError(f"{path} holds {len(members)} arrays ({names}), expected one: split it")
                with archive.open(members[0]) as inside:
                    return _read(inside, members[0].file_size, path)
    except UserError:
        raise
    except (*DAMAGE, *UNREADABLE) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path} is not a readable numpy file ({reason}): make it again") from None


def _read(file: IO[bytes], size: int, path: Path) -> np.ndarray:
    """An array from a file of `size` bytes, the header included."""
    shape, fortran, dtype = read_header(file)
    if dtype.kind not in "fiu":
        raise UserError(f"{path} holds {dtype}, expected numbers: nothing of it was run")
    claimed = prod(shape) * dtype.itemsize
    if claimed > MOST_BYTES:
        raise UserError(f"{path} claims shape {list(shape)}, too large for the features of a video: is it damaged?")
    if min(shape, default=1) < 0 or file.tell() + claimed > size:
        raise UserError(f"{path} claims shape {list(shape)}, and its values are not all there: is it cut off?")
    values = np.frombuffer(file.read(claimed), dtype)
    return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)
