"""How likely a sentence is to be as good as a person's, from what the search saw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.generation.hypotheses import Hypotheses
from hoca.options import check_bounds, make, option
from hoca.text import SPECIALS

SIGNALS = ("logprob", "evidence", "agreement")
MOST = 1 << 20  # beyond it float32 sums lose the signals


@dataclass(frozen=True)
class Confidence:
    """The probability that a sentence's CIDEr exceeds the median of its clip's human captions against the others.

    A logistic regression on three signals, fitted on videos that the model had not learned from.
    """

    bias: float = option(0.0, "log-odds where all signals are 0", least=-MOST, below=MOST)
    logprob: float = option(0.0, "weight of the log-probability per word", least=-MOST, below=MOST)
    evidence: float = option(0.0, "weight of the detected words' evidence per word", least=-MOST, below=MOST)
    agreement: float = option(0.0, "weight of the beam's agreement with the sentence", least=-MOST, below=MOST)

    def __post_init__(self) -> None:
        check_bounds(self)

    def __call__(self, found: Hypotheses, seen: Tensor) -> Tensor:
        """[B], of the best sentence of each video; seen [B, W]: the evidence of each sentence, 0 = none."""
        weights = torch.tensor([getattr(self, name) for name in SIGNALS])
        return torch.sigmoid(signals(found, seen).cpu() @ weights + self.bias)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Confidence:
        return make(cls, ("the confidence", values if isinstance(values, dict) else {"confidence": values}))


def signals(found: Hypotheses, seen: Tensor) -> Tensor:
    """What the best sentence's confidence comes from, [B, 3] in the order of `SIGNALS`."""
    words = (found.words[:, 0] >= len(SPECIALS)).sum(-1) + 1  # <eos> counts, as in the log-probability
    each = (found.logprob[:, 0] / words, seen[:, 0], _agreement(found))
    return torch.stack([value.float() for value in each], dim=1)


def _agreement(found: Hypotheses) -> Tensor:
    """[B]: how many of its words the best sentence shares with each of the beam (Dice), weighed by probability."""
    sets = F.one_hot(found.words, int(found.words.max()) + 1).amax(2).float()  # [B, W, words]
    sets[..., : len(SPECIALS)] = 0
    shared = (sets * sets[:, :1]).sum(-1)  # [B, W]
    dice = 2 * shared / (sets.sum(-1) + sets[:, :1].sum(-1)).clamp(min=1)
    return (found.logprob.softmax(1) * dice).sum(1)
