"""Weights in autocast's type, copied together; the gradients of their products come in the weights' own type.

Autocast casts every weight by itself, and every gradient back: launches that a GPU waits for, and a gradient that was
rounded to 16 bits first. Here one launch makes all copies, and the product that is a weight's gradient is written as
float32, in which it was summed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Copy = tuple[Tensor, Tensor | None]  # of weights [O, I], one below the other, and of their biases [O]

_copies: dict[tuple[int, ...], Copy] = {}  # by the weights
_kept: dict[Hashable, Any] | None = None  # copies that are used again, by what they are of

Made = TypeVar("Made")


@contextmanager
def keeping_copies() -> Iterator[None]:
    """Within this block weights and encoded videos stay as they are: what `kept` makes of them is made once.

    A search says many words with the same ones. Autocast keeps its own casts of weights in the same way.
    """
    global _kept
    before, _kept = _kept, {}
    try:
        yield
    finally:
        _kept = before


def kept(make: Callable[[], Made], *of: Tensor | Hashable) -> Made:
    """What `make` makes of some tensors and options, made once where copies are kept."""
    if _kept is None:
        return make()
    key = tuple((x.data_ptr(), x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x for x in of)
    if key not in _kept:
        _kept[key] = of, make()  # the tensors stay, and with them their places
    made: Made = _kept[key][1]
    return made


class Copies:
    """Weights to be copied for the products within this block; where autocast is off, they are used as they are."""

    def __init__(self, device: torch.device) -> None:
        on = torch.is_autocast_enabled(device.type) and torch.is_grad_enabled()
        self.dtype = torch.get_autocast_dtype(device.type) if on else None
        self._made: list[tuple[int, ...]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in self._made:
            del _copies[key]

    @torch.no_grad()
    def make(self, *groups: Sequence[nn.Linear], alignment: int = 1) -> None:
        """All by one launch. The layers of a group have one input and become one, see `columns`.

        alignment: rows of zeros, whose bias is -inf, make up a multiple of it.
        """
        if self.dtype is None:
            return
        places: list[Tensor] = []
        values: list[Tensor] = []
        for layers in groups:
            key, rows = _key([layer.weight for layer in layers]), [layer.out_features for layer in layers]
            more = -sum(rows) % alignment
            weight = layers[0].weight.new_empty(sum(rows) + more, layers[0].in_features, dtype=self.dtype)
            bias = weight.new_empty(weight.shape[0]) if layers[0].bias is not None else None
            for joined, own, padding in (
                (weight, [layer.weight for layer in layers], 0.0),
                (bias, [layer.bias for layer in layers], float("-inf")),
            ):
                if joined is not None:
                    places += joined[: sum(rows)].split(rows)
                    values += own
                    if more:
                        joined[sum(rows) :] = padding
            _copies[key] = weight, bias
            self._made.append(key)
        torch._foreach_copy_(places, values)


def copy_of(weights: Sequence[Tensor]) -> Copy | None:
    return _copies.get(_key(weights))


def columns(x: Tensor, layers: Sequence[nn.Linear], width: int) -> list[tuple[Tensor, ...]]:
    """What each layer makes of x [..., I], cut into parts [..., width]: one product, where there is a copy of all."""
    weights = [layer.weight for layer in layers]
    if (copy := copy_of(weights)) is None:
        return [layer(x).unflatten(-1, (-1, width)).unbind(-2) for layer in layers]
    biases = [layer.bias for layer in layers if layer.bias is not None]
    parts = iter(CopiedLinear.apply(x, *copy, width, *weights, *biases))
    return [tuple(next(parts) for _ in range(layer.out_features // width)) for layer in layers]


def float32_product(a: Tensor, b: Tensor) -> Tensor:
    """a [M, K] b [K, N] as it was summed, whatever the type of both."""
    if a.is_cuda and a.dtype != torch.float32:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


class CopiedLinear(torch.autograd.Function):
    """x [..., I] W' + b in parts of some width (None: one), and the gradients of the parameters that were copied."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, width: int | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        low = x.to(weight.dtype)
        ctx.save_for_backward(low, weight)
        ctx.dtype, ctx.bias = x.dtype, bias is not None
        ctx.rows = [p.shape[0] for p in parameters if p.dim() == 2]
        return F.linear(low, weight, bias).split(width or weight.shape[0], dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        low, weight = ctx.saved_tensors
        gradient = torch.cat(gradients, dim=-1) if len(gradients) > 1 else gradients[0]
        flat = gradient.flatten(0, -2)
        rows = ctx.rows, sum(ctx.rows)
        of_x = (flat @ weight).view_as(low).to(ctx.dtype) if ctx.needs_input_grad[0] else None
        of_weights = float32_product(flat.t(), low.flatten(0, -2))[: rows[1]].split(rows[0])
        of_biases = flat.sum(0, dtype=torch.float32)[: rows[1]].split(rows[0]) if ctx.bias else ()
        return of_x, None, None, None, *of_weights, *of_biases


def _key(weights: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(id(weight) for weight in weights)
