"""The kernels of scores, LSTMs and the output layer, compiled for an H200 from users' calls: a launch only compiles.

python compile_all.py — needs no GPU; tensors lie on the CPU and are never read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from hoca.ops import fused
from hoca.ops.cross_entropy_kernels import CrossEntropy
from hoca.ops.draw_kernel import drawn
from hoca.ops.fused import group
from hoca.ops.lstm import kernels, run_fused
from hoca.ops.merge_kernels import MergedWeights
from hoca.ops.weighted_kernels import SideBySide

VIDEOS, WORDS, STEPS, SIZE = 2, 3, 80, 512


class H200:
    """As much of a driver as compiling asks for."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


def scores(kind: str, modalities: int, dtype: torch.dtype, *, masked: bool) -> list[Tensor]:
    def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, requires_grad=True)

    queries = [leaf(VIDEOS, WORDS, SIZE, dtype=dtype) for _ in range(modalities)]
    keys = [leaf(VIDEOS, STEPS, SIZE, dtype=dtype) for _ in range(modalities)]
    masks = [torch.ones(VIDEOS, STEPS, dtype=torch.bool) if masked else None for _ in range(modalities)]
    if kind == "exact":
        weights = [leaf(*[STEPS] * (modalities - 1)) for _ in range(modalities)]
        return fused.exact_scores(queries, keys, weights, masks)
    channels = [leaf(SIZE) for _ in range(modalities)]
    factors = [leaf(1, STEPS) for _ in range(modalities)]
    return fused.low_rank_scores(queries, keys, factors, channels, masks)


def lstm(rows: int, dtype: torch.dtype) -> Tensor:
    layer = torch.nn.LSTM(SIZE, SIZE, batch_first=True, bidirectional=True)
    zeros = torch.zeros(2, rows, SIZE, dtype=dtype)
    real = torch.ones(rows, 3, dtype=torch.bool)
    return run_fused(layer, torch.zeros(rows, 3, SIZE, dtype=dtype), (zeros, zeros), real)[0]


def output() -> Tensor:
    """The contexts side by side and the loss of the words."""

    def leaf(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.zeros(shape, dtype=dtype, requires_grad=True)

    pairs = [(leaf(VIDEOS, WORDS, 2 * SIZE), leaf(VIDEOS, WORDS, dtype=torch.float32)) for _ in range(3)]
    joined = SideBySide.apply(leaf(VIDEOS, WORDS, SIZE), *(tensor for pair in pairs for tensor in pair))
    return CrossEntropy.apply(joined.flatten(0, 1), torch.zeros(VIDEOS * WORDS, dtype=torch.long), 0).sum()


def merge(*, masked: bool) -> Tensor:
    """Eq. 19 of four groups."""
    each = [torch.zeros(VIDEOS, WORDS, STEPS, requires_grad=True) for _ in range(4)]
    mask, counts = (torch.ones(VIDEOS, size, dtype=torch.bool) if masked else None for size in (STEPS, 4))
    return MergedWeights.apply(torch.ones(4, requires_grad=True), mask, counts, *each).sum()


def main() -> None:
    run = JITFunction.run

    def compile_only(function: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        return run(function, *arguments, grid=grid, warmup=True, **options)

    driver.set_active(H200())
    JITFunction.run = compile_only
    fused._runs = lambda tensors: True
    scores("low_rank", 3, torch.bfloat16, masked=True)
    print("low_rank of few words")
    group.FEW = 0
    kernels._chains = lambda features: True
    for kind, modalities, dtype, masked in (
        ("unary", 1, torch.bfloat16, True),
        ("low_rank", 3, torch.bfloat16, False),
        ("exact", 3, torch.bfloat16, False),
        ("exact", 3, torch.float32, True),
    ):
        torch.stack([s.sum() for s in scores(kind, modalities, dtype, masked=masked)]).sum().backward()
        print(kind, modalities, dtype, "masked" if masked else "")
    for rows, dtype in ((25, torch.bfloat16), (25, torch.float32), (200, torch.bfloat16)):
        lstm(rows, dtype).sum().backward()
        print("lstm", rows, dtype)
    output().backward()
    print("output")
    for masked in (False, True):
        merge(masked=masked).backward()
        print("merge", "masked" if masked else "")
    drawn(torch.zeros(2, 5, 10547), torch.zeros(1, 1, 10547, dtype=torch.bool), torch.zeros(2, 5), 1.0)
    print("draw")


if __name__ == "__main__":
    main()
