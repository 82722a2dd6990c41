"""Words seen in the steps of a video, learned from its captions alone: multiple-instance learning with a noisy OR.

A word is in the video if it is in any of its steps: P_w = 1 - Π_i (1 - p_iw), p = σ(score). With S = Σ_i
softplus(score) that is log(1 - P) = -S, so that no product of many small numbers is formed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.ops.linear import Linear

RARE = 0.01  # share of the videos that have a word, before it was counted
TINY = 1e-30  # its logarithm is finite


class MilHead(nn.Module):
    """The scores of K words at each step of each modality."""

    def __init__(self, widths: Mapping[str, int], words: int, steps: Mapping[str, float]) -> None:
        """widths and steps: of each modality, its values' width and how many steps are in a bag that it belongs to."""
        super().__init__()
        self.steps = dict(steps)
        self.heads = nn.ModuleDict({m: Linear(width, words) for m, width in widths.items()})
        self.begin(torch.full((words,), RARE))

    @torch.no_grad()
    def begin(self, frequency: Tensor) -> None:
        """Each word is found as often as it is said, frequency [K], when all steps have the bias as their score."""
        for modality, head in self.heads.items():
            assert isinstance(head, Linear)
            head.bias.copy_(starting_score(frequency.clamp(RARE / 10, 0.99), self.steps[modality]))

    def forward(self, modality: str, values: Tensor) -> Tensor:
        """values [B, T, D] → scores [B, T, K]."""
        return self.heads[modality](values)


def starting_score(probability: Tensor, steps: float) -> Tensor:
    """The score that gives a bag of so many steps this probability: logit(1 - (1 - P)^(1/n))."""
    each = -torch.expm1(torch.log1p(-probability.double()) / steps)
    return torch.logit(each).to(probability.dtype)


def misses(scores: Tensor, real: Tensor) -> Tensor:
    """S = -log(1 - P): scores [B, T, K], real [B, T] → [B, K], at least of float32."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return (F.softplus(scores) * real[..., None]).sum(1)


def probability(missed: Tensor) -> Tensor:
    """S → P."""
    return -torch.expm1(-missed)


def noisy_or_loss(missed: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of P = 1 - exp(-S) and labels, both [..., K] → [..., K]."""
    missed = missed.clamp(min=TINY)
    return (1 - labels) * missed - labels * torch.log(probability(missed))


def per_caption(each: Tensor, words: Tensor, pad: int) -> Tensor:
    """A loss of each video [B], as often as it has captions in words [B, R, L + 1]: summed over captions."""
    return (each * (words[:, :, 1:] != pad).any(2).sum(1)).sum()
