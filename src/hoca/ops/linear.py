"""Large float32 matrix products on a GPU's tensor cores, with nearly float32's accuracy.

Tensor cores take TF32, which keeps 11 of float32's 24 bits. So each number is split into two, x = h + l, where TF32
holds h and |l| ≤ 2^-11 |x|, and a product of matrices becomes h h' + (l h' + h l'), summed in float32. The second part
is so small that bf16's 8 bits are enough for it, which tensor cores multiply faster still. What is left out, l l', is
below float32's own rounding. Tensor cores cut off what they add, so that an error grows with the number of terms: no
more than PIECE of them are summed there, and the pieces in float32. Together that takes less time than one product on
the ordinary cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.ops import has_triton
from hoca.ops.copies import CopiedLinear, copy_of, float32_product

WORTHWHILE = 1 << 29  # multiplications: below this, splitting costs more than it saves
PIECE = 1024
MANY = 256  # rows: fewer wait for the weights to be read, and splitting would read them more often


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`: x [..., I] W' + b for W [O, I]. A user's own choice of TF32, or of another type, is kept to."""
    if (copy := copy_of([weight])) is not None:
        return CopiedLinear.apply(x, *copy, None, weight, *([] if bias is None else [bias]))[0]
    rows = x.numel() // max(x.shape[-1], 1)
    float32 = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
    large = rows >= MANY and rows * weight.numel() >= WORTHWHILE
    if not (x.is_cuda and float32 and large and has_triton()) or torch.backends.cuda.matmul.allow_tf32:
        return F.linear(x, weight, bias)
    return SplitLinear.apply(x.reshape(rows, -1), weight, bias).unflatten(0, x.shape[:-1])


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear_layers(module: nn.Module) -> list[nn.Linear]:
    """The layers of a module whose products `linear` makes."""
    return [layer for layer in module.modules() if isinstance(layer, Linear)]


class SplitLinear(torch.autograd.Function):
    """x [M, I] W' + b, and its gradients, each as a product of halves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight.t(), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        gradient = gradients[0]
        return (
            product(gradient, weight) if needs_x else None,
            product(gradient.t(), x) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a [M, K] b [K, N] (+ bias [N]); the small part first, as one product over [l, h] and [h, l]."""
    from hoca.ops.split_kernel import split

    a_high, a_both = split(a, 1, low_first=True)
    b_high, b_both = split(b, 0, low_first=False)
    out = float32_product(a_both, b_both)
    with tf32(allowed=True):
        for first in range(0, a.shape[1], PIECE):
            out.addmm_(a_high[:, first : first + PIECE], b_high[first : first + PIECE])
    return out if bias is None else out.add_(bias)


@contextmanager
def tf32(*, allowed: bool) -> Iterator[None]:
    """Whether matrix products may round their float32 arguments to TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
