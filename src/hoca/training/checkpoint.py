"""Checkpoints: one safetensors file each, whole or not there, with all that is needed to go on or to caption.

The header's metadata carries the model's configuration, its vocabulary and how its features are made; a checkpoint of
a run in progress also holds the optimizer, the random generators and the run's history.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hoca.errors import UserError
from hoca.files import replacing

FORMAT = "hoca-checkpoint-1"
ROWS = ":rows"  # ends the names of the scales of matrices in bytes
SHIPPED = Path(__file__).resolve().parent.parent / "shipped" / "default.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    tensors: dict[str, Tensor]  # "model.…", and for going on "optimizer.…", "average.…", "random.…"
    facts: dict[str, Any] = field(default_factory=dict)  # JSON: config, vocabulary, specification, progress

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `name.`, without it."""
        start = f"{name}."
        return {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    tensors = {key: value.detach().cpu().contiguous() for key, value in checkpoint.tensors.items()}
    facts = json.dumps(checkpoint.facts, ensure_ascii=False)
    metadata = {"format": FORMAT, "facts": facts, "checksum": _checksum(tensors, facts)}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def read_checkpoint(path: Path) -> Checkpoint:
    """A whole checkpoint, or a `UserError` that names the file and what is wrong with it."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise UserError(f"{path} is no checkpoint of hoca: give a run folder or one of its checkpoints")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (a file is no mapping)
    except FileNotFoundError as error:
        raise UserError(f"there is no run and no checkpoint {path}: give a run folder or a checkpoint") from error
    except (SafetensorError, OSError) as error:
        raise UserError(f"the checkpoint {path} is damaged or no checkpoint at all ({error})") from error
    facts = metadata.get("facts", "")
    if _checksum(tensors, facts) != metadata.get("checksum"):
        raise UserError(f"the checkpoint {path} is damaged: its content does not match its checksum")
    return Checkpoint(_in_full(tensors), json.loads(facts))


def in_bytes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as whole numbers from -127 to 127 and a scale per row, the rest in half precision: a quarter the size.

    `read_checkpoint` gives such a file's matrices in full again.
    """
    packed: dict[str, Tensor] = {}
    for key, value in tensors.items():
        if value.dim() == 2 and value.numel():
            scale = (value.float().abs().amax(1, keepdim=True) / 127).clamp(min=1e-12)  # [rows, 1]
            packed[key], packed[key + ROWS] = (value.float() / scale).round().to(torch.int8), scale
        else:
            packed[key] = value.half()
    return packed


def _in_full(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The opposite of `in_bytes`; other tensors as they are."""
    scales = {key.removesuffix(ROWS): value for key, value in tensors.items() if key.endswith(ROWS)}
    return {
        key: value.float() * scales[key] if key in scales else value
        for key, value in tensors.items()
        if not key.endswith(ROWS)
    }


class Checkpoints:
    """The checkpoints of one run: the two newest to go on from, and the best to caption with."""

    KEPT = 2

    def __init__(self, run: Path) -> None:
        self.folder = run / "checkpoint"
        self.best = self.folder / "best.safetensors"

    def newest(self) -> list[Path]:
        """The checkpoints to go on from, newest first."""
        found = [path for path in self.folder.glob("step-*.safetensors") if re.fullmatch(r"step-\d+", path.stem)]
        return sorted(found, key=_step, reverse=True)

    def write(self, step: int, checkpoint: Checkpoint) -> None:
        write_checkpoint(self.folder / f"step-{step:08d}.safetensors", checkpoint)
        for later in [path for path in self.newest() if _step(path) > step]:  # damaged: this run went on before it
            later.unlink()
        for old in self.newest()[self.KEPT :]:
            old.unlink()

    def read(self, say: Callable[[str], None] | None) -> Checkpoint | None:
        """The newest checkpoint that is whole, None where there is none yet.

        A damaged one is named through `say` and the one before it is taken. If all are damaged, that is an error:
        starting anew would throw a run away without asking.
        """
        paths = self.newest()
        for path in paths:
            try:
                return read_checkpoint(path)
            except UserError as error:
                if say is not None and path != paths[-1]:
                    say(f"{error}; going on from the one before it")
        if paths:
            names = " and ".join(str(path) for path in paths)
            raise UserError(
                f"{names}: no whole checkpoint to go on from: delete them to start anew, or choose another run="
            )
        return None

    def tidy(self) -> None:
        """Remove what a process that was killed while writing left behind."""
        for leftover in [*self.folder.glob(".*.tmp"), *self.folder.parent.glob(".*.tmp")]:
            leftover.unlink(missing_ok=True)


def locate(model: Path | str | None = None) -> Path:
    """The file of a model: the best checkpoint of a run folder, a checkpoint, or the model that hoca ships."""
    if model is None or str(model) == SHIPPED.stem:
        return SHIPPED
    path = Path(model)
    if not path.is_dir():
        return path
    best = Checkpoints(path).best
    if not best.is_file():
        raise UserError(f"{path} holds no trained model ({best} is missing): train one, or give another folder")
    return best


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def _checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    value = zlib.crc32(facts.encode())
    for key in sorted(tensors):
        tensor = tensors[key]
        value = zlib.crc32(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(tensor.flatten().view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
