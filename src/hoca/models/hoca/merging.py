"""Several orders → one set of weights per modality (eq. 19), with a trainable θ per modality and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from hoca.models.config import Group
from hoca.models.hoca.config import HocaConfig
from hoca.ops.merge import masked_softmax, merged_weights


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
    ) -> Tensor:
        """scores[g] [B, Q, T], mask [B, T], present[m] [B] → α [B, Q or 1, T], 0 where absent.

        A group counts for a video if all its members are there. A modality left with no group attends to its real
        steps evenly; `dtype` is that of α where there are no scores at all. `complete`: every step of every modality
        is real, so that no mask need be looked at.
        """
        if not scores:
            return _evenly(mask, dtype)
        counts = None if complete else _counts(scores, present)
        real = None if complete else mask
        if modality not in self.theta:
            (alone,) = scores.values()
            return masked_softmax(alone, real, counts)
        theta = self.theta[modality]
        if len(scores) < len(theta):
            theta = torch.stack([theta[self.groups[modality].index(g)] for g in scores])
        each = list(scores.values())
        if self.mode == "weights":
            return merged_weights(each, theta, real, counts)  # eq. 19
        return self._merge_otherwise(each, theta, real, counts)

    def of_groups(
        self, scores: Mapping[Group, Tensor], mask: Tensor, present: Mapping[str, Tensor]
    ) -> dict[Group, Tensor]:
        """α_g of each group of a modality, eq. 2, 9 and 17; 0 where the group does not count."""
        counts = {g: _counts([g], present) for g in scores}  # [B, 1]
        return {g: masked_softmax(score, mask, counts[g]) * counts[g][..., None] for g, score in scores.items()}

    def _merge_otherwise(
        self, scores: Sequence[Tensor], theta: Tensor, mask: Tensor | None, counts: Tensor | None
    ) -> Tensor:
        """`logits` and `mixture`."""
        stacked = torch.stack(list(scores))  # [G, B, Q, T]
        theta = theta.to(stacked.dtype)[:, None, None, None]
        counted = stacked.new_ones(()) if counts is None else counts.T[:, :, None, None]  # [G, B, 1, 1]
        if counts is not None:
            stacked = stacked.masked_fill(~counted, 0.0)
        if self.mode == "logits":
            if mask is not None:
                stacked = stacked.masked_fill(~mask[:, None], 0.0)
            return masked_softmax((theta * counted * stacked).sum(0), mask)
        share = (theta - theta.max()).exp() * counted
        total = share.sum(0)  # [B, 1, 1] or [1, 1, 1]; zero where no group counts
        mixed = (share * masked_softmax(stacked, mask)).sum(0) / total.clamp(min=1e-30)
        return mixed if mask is None else torch.where(total > 0, mixed, _evenly(mask, mixed.dtype))


def _counts(groups: Iterable[Group], present: Mapping[str, Tensor]) -> Tensor:
    """[B, G]: whether all members of a group are there."""
    return torch.stack([torch.stack([present[m] for m in g]).all(0) for g in groups], dim=1)


def _evenly(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[B, T] → [B, 1, T]"""
    return (mask.to(dtype) / mask.sum(1, keepdim=True).clamp(min=1))[:, None]
