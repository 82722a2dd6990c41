"""Contexts of the modalities → how much each one counts for the next word."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hoca.ops.linear import Linear


class HierarchicalFusion(nn.Module):
    """eq. 20-21: attention over the modalities; W_e, U_e, w_e, b_e are shared by them, as printed."""

    def __init__(self, hidden: int, context: int, attention: int) -> None:
        super().__init__()
        self.query = Linear(hidden, attention)  # W_e, b_e
        self.key = Linear(context, attention, bias=False)  # U_e
        self.channel = nn.Linear(attention, 1, bias=False)  # w_e

    def forward(self, hidden: Tensor, contexts: Tensor, present: Tensor) -> Tensor:
        """hidden [B, Q, H], contexts [B, Q, N, 2H], present [B, N] → β [B, Q, N], zero for absent modalities."""
        mapped = torch.tanh(self.query(hidden)[:, :, None] + self.key(contexts))
        scores = self.channel(mapped).squeeze(-1)  # eq. 21
        return torch.softmax(scores.masked_fill(~present[:, None], float("-inf")), dim=-1)  # eq. 20


class SumFusion(nn.Module):
    """eq. 6: every present modality counts fully."""

    def forward(self, hidden: Tensor, contexts: Tensor, present: Tensor) -> Tensor:
        return present[:, None].to(contexts.dtype).expand(*contexts.shape[:3])


def fusion(kind: str, *, hidden: int, context: int, attention: int) -> nn.Module:
    """`hierarchical` or `sum`; hidden, context: widths of the query and of the modalities' contexts."""
    return HierarchicalFusion(hidden, context, attention) if kind == "hierarchical" else SumFusion()
