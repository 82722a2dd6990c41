"""LSTMs whose gates get more than the word: what does not depend on the state is computed for all words at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hoca.models.parts.start import HiddenState


def lstm_step(gates: Tensor, c: Tensor) -> HiddenState:
    """gates [..., 4H] before their activations, in the order i, f, g, o; c [..., H] → h and c."""
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def unroll(given: Tensor, state: HiddenState, history: Callable[[Tensor], Tensor]) -> tuple[Tensor, HiddenState]:
    """given [B, R, L, 4H], all of the gates that the state does not change; history: h [B, R, H] → the rest of them.

    Returns h [B, R, L, H] and the state after the last word.
    """
    h, c = state
    outputs = []
    for gates in given.unbind(2):
        h, c = lstm_step(gates + history(h), c)
        outputs.append(h)
    return torch.stack(outputs, dim=2), (h, c)
