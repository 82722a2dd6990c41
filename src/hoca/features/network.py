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
from hoca.features.backbones.kinds import Backbone, Later
from hoca.features.transfer import fetched, upload_to
from hoca.threads import cores

Values = Any  # an array, or on a GPU a tensor that has been sent there
Precision = Literal["auto", "float32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("auto", "float32", "bf16", "int8")


@runtime_checkable
class Packable(Protocol):
    """A network that can rearrange its weights for a CPU."""

    def pack(self, dtype: torch.dtype) -> None: ...


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
        module = module.eval().requires_grad_(False)
        if isinstance(module, Packable) and device.type == "cpu" and precision != "int8":
            module.pack(dtype)
        module = module.to(device, dtype)
        for part in module.modules():  # channels last is the faster order of convolutions on both kinds of device
            if isinstance(part, nn.Conv2d | nn.Conv3d):
                order = torch.channels_last if isinstance(part, nn.Conv2d) else torch.channels_last_3d
                part.weight.data = part.weight.data.contiguous(memory_format=order)
        if precision == "int8":
            module = _in_int8(module, device)
        return cls(module, device)

    def __call__(self, batch: Values) -> np.ndarray:
        with torch.inference_mode():
            return self.module(self._on_device(batch)).float().cpu().numpy()

    def batched(self, inputs: Sequence[Values]) -> Later:
        """[F, …] each → [F, width] each, so many at a time as the device works best on."""
        if self.device.type == "cuda":
            with torch.inference_mode():
                batch = torch.cat([self._on_device(each) for each in inputs])
                values = torch.cat([self.module(some) for some in batch.split(_GPU_PICTURES)])
                return fetched(values.split([len(each) for each in inputs]))
        made = self._in_pieces(np.concatenate(inputs))  # [all of F, width]
        return lambda: np.split(made, np.cumsum([len(each) for each in inputs])[:-1])

    def _in_pieces(self, inputs: np.ndarray) -> np.ndarray:
        size = 32
        run: Callable[..., Iterable[np.ndarray]] = map
        if self.pool is not None:
            share = -(-len(inputs) // cores())
            size, run = -(-share // -(-share // _CPU_PICTURES)), self.pool.map  # equal pieces for all cores
        return np.concatenate(list(run(self, (inputs[first : first + size] for first in range(0, len(inputs), size)))))

    def by_clip(self, inputs: Sequence[Values]) -> Later:
        """[T, …] each → [T', width] each; on a GPU several go together."""
        if self.device.type != "cuda":
            run = map if self.pool is None else self.pool.map
            made = list(run(lambda each: self(each[None])[0], inputs))
            return lambda: made
        with torch.inference_mode():
            clips = [self._on_device(each) for each in inputs]
            together = getattr(self.module, "together", self._of_equal_length)
            return fetched(together(clips))

    def _of_equal_length(self, clips: Sequence[Tensor]) -> list[Tensor]:
        places: dict[torch.Size, list[int]] = {}
        for place, each in enumerate(clips):
            places.setdefault(each.shape, []).append(place)
        made: dict[int, Tensor] = {}
        for same in places.values():
            made |= zip(same, self.module(torch.stack([clips[place] for place in same])), strict=True)
        return [made[place] for place in range(len(clips))]

    def _on_device(self, values: Values) -> Tensor:
        if self.device.type != "cuda":
            return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
        upload = upload_to(self.device)
        return upload.arrived(values if isinstance(values, Tensor) else upload(values))


_CPU_PICTURES = 5  # that one core takes at once: more is not faster, and a core that is late is waited for longer
_GPU_PICTURES = 512


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
