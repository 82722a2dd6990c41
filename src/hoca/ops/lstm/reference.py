"""One layer of an LSTM, step by step, as the equations read: what the fast ways are compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def lstm_reference(
    lstm: nn.LSTM, features: Tensor, start: tuple[Tensor, Tensor] | None = None, real: Tensor | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """As `run_lstm`: features [B, T, D] → outputs [B, T, directions · H] and the last state.

    real: [B, T] bool; at steps that are not real, the state stays as it is.
    start: each [directions, B, H].
    """
    batch, steps = features.shape[:2]
    directions = 2 if lstm.bidirectional else 1
    zeros = features.new_zeros(directions, batch, lstm.hidden_size)
    h_start, c_start = (zeros, zeros) if start is None else start
    outputs, ends = [], []
    for direction, ending in enumerate(("l0", "l0_reverse")[:directions]):
        w_ih, w_hh, b_ih, b_hh = (
            getattr(lstm, f"{n}_{ending}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h, c = h_start[direction], c_start[direction]  # [B, H]
        found: list[Tensor] = [h] * steps
        for step in range(steps) if direction == 0 else reversed(range(steps)):
            gates = features[:, step] @ w_ih.T + b_ih + h @ w_hh.T + b_hh
            i, f, g, o = gates.chunk(4, dim=1)
            new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            new_h = torch.sigmoid(o) * torch.tanh(new_c)
            if real is not None:
                here = real[:, step, None]
                new_h, new_c = torch.where(here, new_h, h), torch.where(here, new_c, c)
            h, c = new_h, new_c
            found[step] = h
        outputs.append(torch.stack(found, dim=1))  # [B, T, H]
        ends.append((h, c))
    h, c = (torch.stack(part) for part in zip(*ends, strict=True))
    return torch.cat(outputs, dim=-1), (h, c)
