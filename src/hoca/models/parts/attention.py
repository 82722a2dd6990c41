"""Additive attention of one modality: `w · tanh(W q + b + U V)` over its steps (Bahdanau et al., 2015)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hoca import ops
from hoca.ops.linear import Linear


class AdditiveAttention(nn.Module):
    """Keys are made once per video (`project`), then any number of queries look at them."""

    def __init__(self, query: int, value: int, attention: int) -> None:
        super().__init__()
        self.query = Linear(query, attention)  # W, b
        self.key = Linear(value, attention, bias=False)  # U
        self.channel = nn.Parameter(torch.empty(attention).uniform_(-(attention**-0.5), attention**-0.5))  # w
        self.backend = "auto"

    def project(self, values: Tensor) -> Tensor:
        """values [B, T, ...] → keys [B, T, D]."""
        return self.key(values)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """queries [B, Q, ...], keys [B, T, D], values [B, T, E], mask [B, T] → contexts [B, Q, E], weights [B, Q, T].

        A row whose mask is all False has weights and a context of zero.
        """
        scores = ops.unary_scores(self.query(queries), keys, self.channel, mask, backend=self.backend)
        here = mask.any(1)[:, None, None]  # [B, 1, 1]
        weights = torch.softmax(scores.masked_fill(~here, 0.0), dim=-1) * here
        return weights.to(values.dtype) @ values, weights
