"""Query and weighted contexts → the scores of the words (eq. 6, 22-23)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hoca.models.config import Config


class Output(nn.Module):
    """W_p^h h + Σ_k β_k W_p^k φ_k + b_p as one matrix product over [h, β_k φ_k]."""

    def __init__(self, config: Config, vocabulary_size: int) -> None:
        super().__init__()
        self.modalities = tuple(config.modalities)
        self.width = 2 * config.hidden
        self.linear = nn.Linear(config.hidden + len(self.modalities) * self.width, vocabulary_size)

    def forward(self, hidden: Tensor, weighted: Mapping[str, Tensor]) -> Tensor:
        """hidden [B, Q, H], weighted[m] = β_m φ_m [B, Q, 2H], absent ones left out → logits [B, Q, V]."""
        nothing = hidden.new_zeros(*hidden.shape[:2], self.width)
        parts = [weighted.get(m, nothing).to(hidden.dtype) for m in self.modalities]
        return self.linear(torch.cat([hidden, *parts], dim=-1))  # eq. 22-23
