"""Several orders → one set of weights per modality (eq. 19), with a trainable θ per modality and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

    def counts(self, present: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """present[m] [B] → for each modality [B, G]: the groups that count for a video, whose members are all there.

        Groups with a modality that no video has are left out, as they are among the scores.
        """
        found = {}
        for m, here in present.items():
            groups = [g for g in self.groups[m] if all(member in present for member in g)]
            each = [torch.stack([present[member] for member in g]).all(0) for g in groups]
            found[m] = torch.stack(each, dim=1) if each else here.new_zeros(len(here), 0)
        return found

    def forward(
        self, modality: str, scores: Mapping[Group, Tensor], mask: Tensor, counts: Tensor | None, dtype: torch.dtype
    ) -> Tensor:
        """scores[g] [B, Q, T], mask [B, T], counts [B, G] → α [B, Q or 1, T], 0 where absent.

        A modality left with no group attends to its real steps evenly; `dtype` is that of α where there are no scores
        at all. No counts: every step of every modality is real, so that no mask need be looked at.
        """
        if not scores:
            return _evenly(mask, dtype)
        real = None if counts is None else mask
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

    def of_groups(self, scores: Mapping[Group, Tensor], mask: Tensor, counts: Tensor) -> dict[Group, Tensor]:
        """α_g of each group of a modality, eq. 2, 9 and 17; 0 where the group does not count."""
        each = zip(scores.items(), counts[..., None].unbind(1), strict=True)  # [B, 1]
        return {g: masked_softmax(score, mask, counted) * counted[..., None] for (g, score), counted in each}

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


def _evenly(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[B, T] → [B, 1, T]"""
    return (mask.to(dtype) / mask.sum(1, keepdim=True).clamp(min=1))[:, None]
