"""LSTMs whose gates get more than the word: what does not depend on the state is computed for all words at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hoca.models.parts.start import HiddenState
from hoca.ops.linear import Linear


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


class AheadLSTMCell(nn.Module):
    """An LSTM cell over [known; late]: `ahead` is one matrix product for all words, `forward` is one word.

    Known are the words themselves; late is what depends on the state before, such as what it attends to.
    """

    def __init__(self, known: int, late: int, hidden: int) -> None:
        super().__init__()
        self.known = Linear(known, 4 * hidden)
        self.late = nn.Linear(late, 4 * hidden, bias=False)
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)  # as torch begins an LSTM

    def ahead(self, known: Tensor) -> Tensor:
        """[..., known] → the gates' share of it, [..., 4H]."""
        return self.known(known)

    def forward(self, ahead: Tensor, late: Tensor, state: HiddenState) -> HiddenState:
        """ahead [..., 4H], late [..., late], h and c [..., H] → the next h and c."""
        h, c = state
        return lstm_step(ahead + self.late(late) + self.recurrent(h), c)
