"""Do words look where they should? Attention against moments that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as in `hoca.explain.explanation`
    from torch import Tensor

    from hoca.models import Explanation


@dataclass(frozen=True)
class Look:
    """Where some words looked in one modality: means over the words."""

    modality: str
    group: tuple[str, ...]  # whose weights these are; empty: all groups merged
    words: int
    told: float  # share of α on the moments of what is told
    others: float  # share of α on the moments of what could be mistaken for it
    even: float  # the share on the moments of what is told that even attention has
    beta: float  # share of the modality


def looks(
    explanation: Explanation, told: Mapping[str, Tensor], others: Mapping[str, Tensor], chosen: Tensor
) -> list[Look]:
    """Of the words chosen [B, R, L] (bool), where each modality and group looked.

    told, others: modality → [B, T_m], the part of each step that belongs to the moments (`coverage`). Every video has
    all of its steps, and every modality that is asked for.
    """
    found = []
    for modality, merged in explanation.attention.items():
        for group, alpha in {(): merged, **explanation.groups.get(modality, {})}.items():
            alpha = alpha.expand(*chosen.shape, -1)[chosen]  # [words, T]
            which = chosen.nonzero()[:, 0]  # the video of each word
            found.append(
                Look(
                    modality,
                    group,
                    len(which),
                    told=float((alpha * told[modality][which]).sum(1).mean()),
                    others=float((alpha * others[modality][which]).sum(1).mean()),
                    even=float(told[modality][which].mean()),
                    beta=float(explanation.shares[modality][chosen].mean()),
                )
            )
    return found
