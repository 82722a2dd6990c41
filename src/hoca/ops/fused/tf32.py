# mypy: disable-error-code="no-untyped-def"
"""A float32 as the sum of two numbers that TF32, the tensor cores' format, holds."""

from __future__ import annotations

import triton
import triton.language as tl

HALF = tl.constexpr(0x1000)  # of the last bit that TF32 keeps
KEPT = tl.constexpr(-0x2000)  # sign, exponent and the upper 10 bits of the fraction


@triton.jit
def rounded(x):
    """To the nearest TF32 number: at most 2^-11 of it is left over, which TF32 holds again, but for 2^-22."""
    return ((x.to(tl.int32, bitcast=True) + HALF) & KEPT).to(tl.float32, bitcast=True)
