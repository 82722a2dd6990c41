# mypy: disable-error-code="no-untyped-def"
"""Float32 matrices in two halves: the upper one as TF32 holds it, and both, one after the other, in bf16 (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from hoca.ops.fused.tf32 import rounded

BLOCK = 1024


@triton.jit
def _split(x, high, both, columns, stride, low_at, high_at, BLOCK: tl.constexpr):
    """x = high + low. Grid: rows, blocks of columns."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = column < columns
    value = tl.load(x + row * columns + column, mask=here, other=0.0)
    near = rounded(value)
    tl.store(high + row * columns + column, near, mask=here)
    tl.store(both + row * stride + high_at + column, near.to(tl.bfloat16), mask=here)
    tl.store(both + row * stride + low_at + column, (value - near).to(tl.bfloat16), mask=here)


def split(x: Tensor, axis: int, *, low_first: bool) -> tuple[Tensor, Tensor]:
    """x [M, N] → its upper half, and both halves in bf16 along `axis`; laid out as x or its transpose is."""
    if not x.is_contiguous() and x.t().is_contiguous():
        high, both = split(x.t(), 1 - axis, low_first=low_first)
        return high.t(), both.t()
    x = x.contiguous()
    rows, columns = x.shape
    high = torch.empty_like(x)
    both = x.new_empty((2 * rows, columns) if axis == 0 else (rows, 2 * columns), dtype=torch.bfloat16)
    second = x.numel() if axis == 0 else columns
    low_at, high_at = (0, second) if low_first else (second, 0)
    grid = rows, triton.cdiv(columns, BLOCK)
    _split[grid](x, high, both, columns, both.shape[1], low_at, high_at, BLOCK)
    return high, both
