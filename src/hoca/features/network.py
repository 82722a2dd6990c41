"""A backbone's network with its weights, on one device, in one precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.features.backbones.kinds import Backbone
from hoca.threads import cores

Precision = Literal["auto", "float32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("auto", "float32", "bf16", "int8")


@runtime_checkable
class Packable(Protocol):
    """A network that can rearrange its weights for float32 on a CPU."""

    def pack(self) -> None: ...


@dataclass
class Network:
    module: nn.Module
    device: torch.device
    pool: ThreadPoolExecutor | None = None  # threads, one per core, among which single pictures and sounds are divided

    @classmethod
    def load(cls, backbone: Backbone, weights: Path | None, device: torch.device, precision: Precision) -> Network:
        assert backbone.build is not None
        if weights is None:
            module = backbone.build()
        else:
            with torch.device("meta"):
                module = backbone.build()
            module.load_state_dict(load_file(weights), assign=True)
        dtype = _dtype(backbone, device, precision)
        module = module.eval().requires_grad_(False).to(device, dtype)
        for part in module.modules():  # channels last is the faster order of convolutions on both kinds of device
            if isinstance(part, nn.Conv2d | nn.Conv3d):
                order = torch.channels_last if isinstance(part, nn.Conv2d) else torch.channels_last_3d
                part.weight.data = part.weight.data.contiguous(memory_format=order)
        if precision == "int8":
            module = _in_int8(module, device)
        elif isinstance(module, Packable) and device.type == "cpu" and dtype == torch.float32:
            module.pack()
        return cls(module, device)

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return self.module(self._to_device(batch)).float().cpu().numpy()

    def batched(self, inputs: np.ndarray) -> np.ndarray:
        """[F, …] → [F, width], so many at a time as the device works best on."""
        size = 32 if self.device.type == "cpu" else 512
        run: Callable[..., Iterable[np.ndarray]] = map
        if self.pool is not None:
            share = -(-len(inputs) // cores())
            size, run = -(-share // -(-share // _CPU_PICTURES)), self.pool.map  # equal pieces for all cores
        return np.concatenate(list(run(self, (inputs[first : first + size] for first in range(0, len(inputs), size)))))

    def batched_by_shape(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """[T, …] each → [T', width] each; on a GPU those of the same length go together."""
        if self.device.type == "cpu":
            run = map if self.pool is None else self.pool.map
            return list(run(lambda each: self(each[None])[0], inputs))
        places: dict[tuple[int, ...], list[int]] = {}
        for place, each in enumerate(inputs):
            places.setdefault(each.shape, []).append(place)
        outputs: list[tuple[list[int], Tensor]] = []
        with torch.inference_mode():
            for shape, same in places.items():
                size = max(1, _GPU_FRAMES // shape[0]) if len(shape) > 1 else len(same)
                for first in range(0, len(same), size):
                    group = same[first : first + size]
                    # Nothing waits for the result here, so that the next clips are sent while these are computed.
                    outputs.append((group, self.module(self._to_device([inputs[place] for place in group]))))
        made = {
            place: values for group, found in outputs for place, values in zip(group, found.float().cpu(), strict=True)
        }
        return [made[place].numpy() for place in range(len(inputs))]

    def _to_device(self, batch: np.ndarray | list[np.ndarray]) -> Tensor:
        if self.device.type != "cuda":
            return torch.from_numpy(np.ascontiguousarray(batch)).to(self.device)
        first = torch.from_numpy(batch[0])
        pinned = torch.empty((len(batch), *first.shape), dtype=first.dtype, pin_memory=True)
        for row, values in zip(pinned, batch, strict=True):
            row.copy_(torch.from_numpy(values))
        return pinned.to(self.device, non_blocking=True)


_CPU_PICTURES = 5  # that one core takes at once: more is not faster, and a core that is late is waited for longer
_GPU_FRAMES = 4096  # that I3D takes at once: about 40 GB in bfloat16


def _dtype(backbone: Backbone, device: torch.device, precision: Precision) -> torch.dtype:
    if precision == "auto":
        quick = device.type != "cpu" or cpu_has_bfloat16()
        return torch.bfloat16 if quick and backbone.bfloat16 else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _in_int8(module: nn.Module, device: torch.device) -> nn.Module:
    """Matrix products in int8, their inputs rounded as they come; convolutions and the rest stay in float32."""
    if device.type != "cpu":
        raise UserError("precision=int8 is for CPUs: use bf16 on a GPU")
    if torch.backends.quantized.engine == "none":
        raise UserError("precision=int8: torch has no int8 arithmetic for this processor: use float32")
    import warnings

    with warnings.catch_warnings():  # torch means to move this to a package of its own
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)


def cpu_has_bfloat16() -> bool:
    cpu: Any = torch.cpu
    return any(
        test()
        for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        if (test := getattr(cpu, name, None)) is not None
    )
