"""Checkpoints: one safetensors file each, whole or not there, with all that is needed to caption or to resume.

The header's metadata carries the model's name and configuration, its vocabulary, how its features are made and how it
searches; a checkpoint of a run in progress also holds the optimizer, the random generators and the run's history.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hoca.checkpoint.migrate import VERSION, migrate, version_of
from hoca.errors import BadCheckpoint
from hoca.files import replacing
from hoca.options import shortened

ROW_SCALES = ":rows"  # ends the names of the scales of int8 matrices
DTYPES = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}  # of weights, counts and generators


@dataclass(frozen=True)
class Checkpoint:
    tensors: dict[str, Tensor]  # "model.…", and for resuming "optimizer.…", "average.…", "random.…"
    facts: dict[str, Any] = field(default_factory=dict)  # JSON: model, config, vocabulary, specification, search, …

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `name.`, without it."""
        start = f"{name}."
        return {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    tensors = {key: value.detach().cpu().contiguous() for key, value in checkpoint.tensors.items()}
    facts = json.dumps(checkpoint.facts, ensure_ascii=False)
    metadata = {"format": f"hoca-checkpoint-{VERSION}", "facts": facts, "checksum": _checksum(tensors, facts)}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def read_checkpoint(path: Path) -> Checkpoint:
    """A whole checkpoint, one of an older format as if it were new; or a `UserError` that says what is wrong."""
    if not path.exists():
        raise BadCheckpoint(f"there is no run and no checkpoint {path}: give a run folder or a checkpoint")
    if not path.is_file():  # to open a pipe would wait for ever
        raise BadCheckpoint(f"{path} is not a file: give a run folder or a checkpoint")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            version = version_of(metadata.get("format"), path)
            _check_header(file, path)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (a file is no mapping)
    except (SafetensorError, OSError) as error:
        raise BadCheckpoint(f"the checkpoint {path} is damaged or no checkpoint at all ({error})") from error
    text = metadata.get("facts", "")
    if _checksum(tensors, text) != metadata.get("checksum"):
        raise BadCheckpoint(f"the checkpoint {path} is damaged: its content does not match its checksum")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        raise BadCheckpoint(f"the checkpoint {path} is damaged: its header is no JSON") from None
    if not isinstance(facts, dict):
        raise BadCheckpoint(f"the checkpoint {path} is damaged: its header is no table")
    tensors = _dequantize(tensors)
    for key, value in tensors.items():
        if value.is_floating_point() and not _all_finite(value):
            raise BadCheckpoint(f"the checkpoint {path} is damaged: {shortened(key)} holds values that are not finite")
    return Checkpoint(tensors, migrate(facts, version))


def _all_finite(values: Tensor) -> bool:
    """In one pass and without a tensor of answers: the least and the largest are NaN where one value is."""
    return not values.numel() or all(math.isfinite(bound) for bound in values.aminmax())


def _check_header(file: Any, path: Path) -> None:
    """Types and row scales, before any value is read: a wrong scale would spread over more memory than the file has."""
    slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
    for key, each in slices.items():
        if each.get_dtype() not in DTYPES:
            raise BadCheckpoint(
                f"the checkpoint {path}: {shortened(key)} is of type {each.get_dtype()}, which hoca has not"
            )
    for key, scale in slices.items():
        if key.endswith(ROW_SCALES):
            matrix = slices.get(key.removesuffix(ROW_SCALES))
            shape = [] if matrix is None or matrix.get_dtype() != "I8" else matrix.get_shape()
            if len(shape) != 2 or scale.get_shape() != [shape[0], 1]:
                raise BadCheckpoint(f"the checkpoint {path} is damaged: {shortened(key)} is not one scale per row")


def quantize_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as symmetric per-row int8, the rest in half precision: a quarter the size.

    `read_checkpoint` gives such a file's matrices in float32 again.
    """
    packed: dict[str, Tensor] = {}
    for key, value in tensors.items():
        if value.dim() == 2 and value.numel():
            scale = (value.float().abs().amax(1, keepdim=True) / 127).clamp(min=1e-12)  # [rows, 1]
            packed[key], packed[key + ROW_SCALES] = (value.float() / scale).round().to(torch.int8), scale
        else:
            packed[key] = value.half()
    return packed


def _dequantize(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The opposite of `quantize_int8`; other tensors as they are."""
    scales = {key.removesuffix(ROW_SCALES): value for key, value in tensors.items() if key.endswith(ROW_SCALES)}
    return {
        key: value.float().mul_(scales[key]) if key in scales else value
        for key, value in tensors.items()
        if not key.endswith(ROW_SCALES)
    }


def _checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    value = zlib.crc32(facts.encode())
    for key in sorted(tensors):
        tensor = tensors[key]
        value = zlib.crc32(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(tensor.flatten().view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
