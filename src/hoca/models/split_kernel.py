# mypy: disable-error-code="no-untyped-def"
"""A float32 as the sum of two numbers that TF32 holds (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
HALF = tl.constexpr(0x1000)  # of the last bit that TF32 keeps
KEPT = tl.constexpr(-0x2000)  # sign, exponent and the upper 10 bits of the fraction


@triton.jit
def _rounded(x):
    """To the nearest TF32 number."""
    return ((x.to(tl.int32, bitcast=True) + HALF) & KEPT).to(tl.float32, bitcast=True)


@triton.jit
def _split(x, high, low, SIZE, BLOCK: tl.constexpr):
    """x = high + low"""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < SIZE, other=0.0)
    near = _rounded(value)
    tl.store(high + place, near, mask=place < SIZE)
    tl.store(low + place, _rounded(value - near), mask=place < SIZE)


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [M, N] → its upper and lower half, laid out as x or its transpose is."""
    if not x.is_contiguous() and x.t().is_contiguous():
        high, low = split(x.t())
        return high.t(), low.t()
    x = x.contiguous()
    high, low = torch.empty_like(x), torch.empty_like(x)
    _split[(triton.cdiv(x.numel(), BLOCK),)](x, high, low, x.numel(), BLOCK)
    return high, low
