"""LSTMs over padded steps whose lengths no host looks at, so that a GPU can run them from a captured graph.

Packing needs the lengths on the host. Here the cell stays zero at padded steps, up to the first real step of the
backward direction, which therefore starts as it does in a packed sequence; in the forward direction padding comes last
and touches nothing real. Outputs and gradients are those of packing. On a GPU with Triton our own kernels do this;
elsewhere torch's LSTM does, with an input that closes the input gate at padded steps.
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor, nn

from hoca.ops import has_triton
from hoca.ops.copies import kept

CLOSED = -1e4  # added to the input gate: its sigmoid is then exactly zero in every floating type
MARKS = 8  # columns that tell of padding: one would do, eight keep the matrices aligned for tensor cores


def run_lstm(
    lstm: nn.LSTM, features: Tensor, start: tuple[Tensor, Tensor] | None = None, real: Tensor | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One layer over features [B, T, D], in autocast's type where it is on: outputs [B, T, directions · H], last state.

    real: [B, T] bool; outputs at steps that are not real are meaningless, and the state then starts at zero.
    start: each [directions, B, H].
    """
    device = features.device.type
    cast = torch.is_autocast_enabled(device) and features.dtype != torch.float64
    dtype = torch.get_autocast_dtype(device) if cast else features.dtype
    if device == "cpu" and not cpu_has_lstm(dtype):
        dtype = torch.float32
    directions = 2 if lstm.bidirectional else 1
    if start is None:
        zeros = features.new_zeros(directions, features.shape[0], lstm.hidden_size)
        start = zeros, zeros
    with torch.autocast(device, enabled=False):  # it would run cuDNN's LSTM in float16 whatever type was asked for
        h, c = (part.to(dtype) for part in start)
        if features.is_cuda and dtype != torch.float64 and has_triton():
            return run_fused(lstm, features.to(dtype), (h, c), real)
        if real is not None:
            marks = (~real)[..., None] & (torch.arange(MARKS, device=features.device) == 0)  # [B, T, MARKS]
            features = torch.cat([features, marks.to(features.dtype)], dim=-1)
        weights = _weights(lstm, marked=real is not None, dtype=dtype)
        output, h, c = torch.lstm(
            features.to(dtype), (h, c), weights, True, 1, 0.0, torch.is_grad_enabled(), lstm.bidirectional, True
        )
    return output, (h, c)


@cache
def cpu_has_lstm(dtype: torch.dtype) -> bool:
    """Whether torch's LSTM computes in this type here: processors without AVX-512 have none of 16 bits."""
    try:
        # No initial values: drawing them in the first step after a resume would change the dropout of the rest.
        nn.LSTM(1, 1, device="meta", dtype=dtype).to_empty(device="cpu")(torch.zeros(1, 1, 1, dtype=dtype))
    except RuntimeError:
        return False
    return True


def run_fused(
    lstm: nn.LSTM, features: Tensor, start: tuple[Tensor, Tensor], real: Tensor | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The same through our kernels, in the type of the features."""
    from hoca.ops.lstm.kernels import FusedLSTM

    endings = ("l0", "l0_reverse") if lstm.bidirectional else ("l0",)
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    given = [[getattr(lstm, f"{kind}_{ending}") for ending in endings] for kind in kinds]
    joined = kept(partial(_joined, *given, dtype=features.dtype), given[0][0], features.dtype)
    hidden, (h, c) = lstm.hidden_size, start
    output, c = FusedLSTM.apply(features, *joined, h, c, real, *(each for kind in given for each in kind))
    ends = output[:, -1, :hidden], output[:, 0, hidden:]
    return output, (torch.stack(ends[: len(endings)]), c.to(features.dtype))


@torch.no_grad()
def _joined(
    w_ih: list[Tensor], w_hh: list[Tensor], b_ih: list[Tensor], b_hh: list[Tensor], *, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Of one or two directions, in another type: W_ih [D·4H, I], W_hh [D, 4H, H] and the sum of the biases [D·4H]."""
    parts = w_ih, w_hh, list(torch._foreach_add(b_ih, b_hh))
    stacked = [part[0].new_empty(len(part), *part[0].shape, dtype=dtype) for part in parts]
    torch._foreach_copy_([x for each in stacked for x in each.unbind()], [x for part in parts for x in part])
    return stacked[0].flatten(0, 1), stacked[1], stacked[2].flatten()


def _weights(lstm: nn.LSTM, *, marked: bool, dtype: torch.dtype) -> list[Tensor]:
    """The layer's parameters in `dtype`, as parts of one piece of memory in cuDNN's order: matrices, then biases."""
    endings = ("l0", "l0_reverse") if lstm.bidirectional else ("l0",)
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    named = {(kind, ending): getattr(lstm, f"{kind}_{ending}") for ending in endings for kind in kinds}
    if marked:
        for ending in endings:
            weight = named["weight_ih", ending]
            gates = torch.arange(4 * lstm.hidden_size, device=weight.device)[:, None]  # i, f, g, o
            close = (gates < lstm.hidden_size) & (torch.arange(MARKS, device=weight.device) == 0)  # [4H, MARKS]
            named["weight_ih", ending] = torch.cat([weight, CLOSED * close.to(weight.dtype)], dim=1)
    order = [(kind, ending) for part in (kinds[:2], kinds[2:]) for ending in endings for kind in part]
    flat = torch.cat([named[key].flatten() for key in order]).to(dtype)
    parts = flat.split([named[key].numel() for key in order])
    views = {key: part.view_as(named[key]) for key, part in zip(order, parts, strict=True)}
    return [views[kind, ending] for ending in endings for kind in kinds]
