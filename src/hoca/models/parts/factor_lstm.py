"""An LSTM whose weights are made by a code of the video, such as its tags or topics (Gan et al., 2017).

Each weight matrix W(s) = A diag(s B) C' has factors that all videos share; what the code s makes of them, s B, is
computed once per video. Gates are stacked, so that a step is two matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hoca.models.parts.lstm import unroll
from hoca.models.parts.start import HiddenState


class Factored(nn.Module):
    """((x A) ∘ (s B)) C' for each of the four gates, s B being given.

    active: how many entries of a code are about 1, so that s B begins at about 1 too, whatever the code's length.
    """

    def __init__(self, inputs: int, hidden: int, factors: int, code: int, active: float) -> None:
        super().__init__()
        self.a = nn.Linear(inputs, 4 * factors, bias=False)
        self.b = nn.Linear(code, 4 * factors, bias=False)
        self.c = nn.Parameter(torch.empty(4, factors, hidden).uniform_(-(factors**-0.5), factors**-0.5))
        nn.init.normal_(self.b.weight, std=active**-0.5)

    def forward(self, x: Tensor, coded: Tensor) -> Tensor:
        """x [..., I], coded = s B [..., 4F] → [..., 4H]."""
        mixed = (self.a(x) * coded).unflatten(-1, (4, -1))  # [..., 4, F]
        return torch.einsum("...gf,gfh->...gh", mixed, self.c).flatten(-2)


class Coded(NamedTuple):
    """What the code of each video makes of the cell, with the video's own term of the gates."""

    words: Tensor  # s B of the words' weights, [B, 4F]
    history: Tensor  # s B of the state's weights, [B, 4F]
    given: Tensor  # bias and video, [B, 4H]


class FactorLSTM(nn.Module):
    """Gates of W(s) x + U(s) h + Σ_m C_m(s) v_m + b, over the modalities that a video has."""

    def __init__(
        self,
        *,
        inputs: int,
        hidden: int,
        factors: int,
        code: int,
        active: float,
        videos: Mapping[str, int],
    ) -> None:
        super().__init__()
        self.words = Factored(inputs, hidden, factors, code, active)
        self.history = Factored(hidden, hidden, factors, code, active)
        self.videos = nn.ModuleDict({m: Factored(width, hidden, factors, code, active) for m, width in videos.items()})
        self.bias = nn.Parameter(torch.zeros(4 * hidden))

    def coded(self, code: Tensor, pooled: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Coded:
        """code [B, K], pooled[m] [B, D_m], present[m] [B] → all that needs no word."""
        given = self.bias.expand(len(code), -1)
        for m, part in self.videos.items():
            if m in pooled:
                given = given + part(pooled[m], part.b(code)) * present[m][:, None]  # type: ignore[operator]
        return Coded(self.words.b(code), self.history.b(code), given)

    def forward(self, inputs: Tensor, coded: Coded, state: HiddenState) -> tuple[Tensor, HiddenState]:
        """inputs [B, R, L, E] → h [B, R, L, H] and the state after the last."""
        given = self.words(inputs, coded.words[:, None, None]) + coded.given[:, None, None]
        return unroll(given, state, lambda h: self.history(h, coded.history[:, None]))
