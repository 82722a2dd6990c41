"""Weights of several groups of attention → the weights of a modality (eq. 19)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hoca.ops import has_triton

LONGEST = 1024  # steps that a kernel takes


def merged_weights(
    scores: Sequence[Tensor], theta: Tensor, mask: Tensor | None = None, counts: Tensor | None = None
) -> Tensor:
    """α = softmax(Σ_g θ_g softmax(s_g)), eq. 19, of scores[g] [B, Q, T] and theta [G] → [B, Q, T].

    mask [B, T] bool, True = real; a video without a real step gets 0. counts [B, G] bool: the groups that count for a
    video, whose members are all there; what the scores of others are does not matter. With none, real steps are even.
    """
    first = scores[0]
    if first.is_cuda and first.dtype == torch.float32 and first.shape[2] <= LONGEST and has_triton():
        from hoca.ops.merge_kernels import MergedWeights

        return MergedWeights.apply(theta, mask, counts, *scores)
    return plain_merged_weights(scores, theta, mask, counts)


def plain_merged_weights(
    scores: Sequence[Tensor], theta: Tensor, mask: Tensor | None = None, counts: Tensor | None = None
) -> Tensor:
    """The same, operation by operation."""
    stacked = torch.stack(list(scores))  # [G, B, Q, T]
    theta = theta.to(stacked.dtype)[:, None, None, None]
    if counts is not None:
        counted = counts.T[:, :, None, None]  # [G, B, 1, 1]
        stacked, theta = stacked.masked_fill(~counted, 0.0), theta * counted
    return masked_softmax((theta * masked_softmax(stacked, mask)).sum(0), mask)


def masked_softmax(scores: Tensor, mask: Tensor | None, counts: Tensor | None = None) -> Tensor:
    """scores [..., B, Q, T] over the real steps of mask [B, T]; 0 where a video has none.

    counts [B, 1]: where scores do not count, the weights are even.
    """
    if counts is not None:
        scores = scores.masked_fill(~counts[..., None], 0.0)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    here = mask.any(1, keepdim=True)  # [B, 1]
    padding = ~(mask | ~here)[:, None]  # [B, 1, T]: a row that is not here is kept finite, and zeroed in the end
    return torch.softmax(scores.masked_fill(padding, float("-inf")), dim=-1) * here[..., None]
