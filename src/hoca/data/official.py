"""Finding and reading the files that a dataset's authors published, packed or unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from hoca.errors import UserError


def find_file(source: Path, name: str, dataset: str) -> Path | None:
    """`name` in the source folder or in its subfolder `dataset`."""
    return next((path for path in (source / name, source / dataset / name) if path.is_file()), None)


def read_official(source: Path, name: str, archive: str, dataset: str) -> bytes:
    """The content of a published file, unpacked or inside its published zip archive."""
    plain = find_file(source, name, dataset)
    if plain is not None:
        return plain.read_bytes()
    packed = find_file(source, archive, dataset)
    if packed is None:
        raise UserError(f"neither {name} nor {archive} in {source}: download the official files into it")
    try:
        with zipfile.ZipFile(packed) as file:
            member = next((each for each in file.namelist() if Path(each).name == name), None)
            if member is None:
                raise UserError(f"{packed} holds no {name}: download the official archive again")
            return file.read(member)
    except (zipfile.BadZipFile, OSError, RuntimeError, EOFError) as error:
        raise UserError(f"{packed} is not a readable zip archive ({error}): download it again") from None


def read_arrays(path: Path, shapes: dict[str, tuple[int | None, ...]]) -> dict[str, np.ndarray]:
    """Named arrays of an npz file, each of the given shape (None: any size); nothing is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in shapes}
    except KeyError as error:
        raise UserError(f"{path}: {error}: give the file as published") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is not a readable npz file ({error}): fetch it again") from None
    for name, expected in shapes.items():
        found = arrays[name].shape
        if len(found) != len(expected) or any(
            want not in (None, got) for got, want in zip(found, expected, strict=True)
        ):
            raise UserError(f"{path}: {name} has shape {list(found)}, expected {list(expected)}")
    return arrays


def check_counts(what: str, found: dict[str, int], expected: dict[str, int]) -> None:
    """Numbers that everybody's results rest on: a mismatch means other data."""
    for split, count in expected.items():
        if (number := found.get(split, 0)) != count:
            raise UserError(
                f"{what}, split {split}: found {number}, expected {count}: download the official files again"
            )
