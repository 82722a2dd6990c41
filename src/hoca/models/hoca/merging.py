"""Several orders → one set of weights per modality (eq. 19), with a trainable θ per modality and group."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hoca.models.config import Group
from hoca.models.hoca.config import HocaConfig


class Merge(nn.Module):
    """`weights` is eq. 19 as printed; `logits` puts θ on the scores; `mixture` averages with softmax(θ)."""

    def __init__(self, config: HocaConfig) -> None:
        super().__init__()
        self.mode = config.merge
        self.groups = {m: config.groups_of(m) for m in config.modalities}
        self.theta = nn.ParameterDict(
            {m: nn.Parameter(torch.ones(len(groups))) for m, groups in self.groups.items() if len(groups) > 1}
        )

    def theta_of(self, modality: str) -> dict[Group, float]:
        """θ of each group of a modality; empty where it has one group only."""
        if modality not in self.theta:
            return {}
        return dict(zip(self.groups[modality], self.theta[modality].tolist(), strict=True))

    def forward(
        self,
        modality: str,
        scores: Mapping[Group, Tensor],
        mask: Tensor,
        present: Mapping[str, Tensor],
        dtype: torch.dtype,
        *,
        complete: bool = False,
    ) -> tuple[Tensor, dict[Group, Tensor]]:
        """scores[g] [B, Q, T], mask [B, T], present[m] [B] → α [B, Q or 1, T] (0 where absent), and α_g of each group.

        A group counts for a video if all its members are there. A modality left with no group attends to its real
        steps evenly; `dtype` is that of α where there are no scores at all. `complete`: every step of every modality
        is real, so that no mask need be looked at.
        """
        if complete and scores:
            return self._merge_complete(modality, scores)
        here = present[modality]
        mask = (mask | ~here[:, None])[:, None]  # [B, 1, T]: an absent row is kept finite here and zeroed below
        counts = {g: torch.stack([present[m] for m in g]).all(0)[:, None, None] for g in scores}  # [B, 1, 1]
        filled = {g: s.masked_fill(~counts[g], 0.0).masked_fill(~mask, float("-inf")) for g, s in scores.items()}
        weights = {g: torch.softmax(s, dim=-1) for g, s in filled.items()}  # α_g, eq. 2, 9 and 17
        merged = self._merge(modality, filled, weights, mask, counts) if weights else _evenly(mask, dtype)
        alone = {g: w * (counts[g] & here[:, None, None]) for g, w in weights.items()}
        return merged * here[:, None, None], alone

    def _merge_complete(self, modality: str, scores: Mapping[Group, Tensor]) -> tuple[Tensor, dict[Group, Tensor]]:
        if modality not in self.theta:
            each = {g: torch.softmax(s, dim=-1) for g, s in scores.items()}
            return next(iter(each.values())), each
        stacked = torch.stack(list(scores.values()))  # [G, B, Q, T]
        weights = torch.softmax(stacked, dim=-1)  # α_g, eq. 2, 9 and 17
        each = dict(zip(scores, weights.unbind(), strict=True))
        theta = self.theta[modality]
        if len(scores) < len(theta):
            theta = torch.stack([theta[self.groups[modality].index(g)] for g in scores])
        theta = theta.to(weights.dtype)[:, None, None, None]
        if self.mode == "mixture":
            return (torch.softmax(theta, dim=0) * weights).sum(0), each
        summed = (theta * (weights if self.mode == "weights" else stacked)).sum(0)
        return torch.softmax(summed, dim=-1), each  # eq. 19

    def _merge(
        self,
        modality: str,
        scores: Mapping[Group, Tensor],
        weights: Mapping[Group, Tensor],
        mask: Tensor,
        counts: Mapping[Group, Tensor],
    ) -> Tensor:
        if modality not in self.theta:
            return next(iter(weights.values()))
        theta = {g: self.theta[modality][self.groups[modality].index(g)] for g in weights}
        if self.mode == "mixture":
            share = {g: (theta[g] - self.theta[modality].max()).exp() * counts[g] for g in weights}
            total = torch.stack(list(share.values())).sum(0)  # [B, 1, 1]; zero where no group counts
            mixed = torch.stack([share[g] * weights[g] for g in weights]).sum(0) / total.clamp(min=1e-30)
            return torch.where(total > 0, mixed, _evenly(mask, mixed.dtype))
        terms = weights if self.mode == "weights" else {g: s.masked_fill(~mask, 0.0) for g, s in scores.items()}
        summed = torch.stack([theta[g] * counts[g] * terms[g] for g in weights]).sum(0)
        return torch.softmax(summed.masked_fill(~mask, float("-inf")), dim=-1)  # eq. 19


def _evenly(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return mask.to(dtype) / mask.sum(-1, keepdim=True)
