"""What every search does at each word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from hoca.generation.limits import SentenceLimits
from hoca.models import CaptionModel, Memory, State
from hoca.models.modes import inference

__all__ = ["WordByWord", "inference", "log_probabilities", "next_scores", "next_word"]


class WordByWord(ABC):
    """A way to find sentences. What it knows after some words is a tree of tensors that says when it has `finished`."""

    limits: SentenceLimits

    @abstractmethod
    def begin(self, model: CaptionModel, memory: Memory) -> Any:
        """Before the first word."""

    @abstractmethod
    def advance(self, model: CaptionModel, memory: Memory, found: Any, said: int) -> Any:
        """All beginnings of `said` words, with one word more; nothing changes once all are finished."""

    def run(self, model: CaptionModel, memory: Memory, *, look_every: int = 1) -> Any:
        """All words, with a look after every so many whether all sentences are finished."""
        found = self.begin(model, memory)
        for said in range(self.limits.max_length + 1):
            found = self.advance(model, memory, found, said)
            if (said + 1) % look_every == 0 and bool(found.finished()):
                break
        return found


def next_scores(model: CaptionModel, memory: Memory, last: Tensor, state: State) -> tuple[Tensor, State]:
    """The last word of each hypothesis [B, W] → scores of the next, before the softmax [B, W, V], and the state."""
    logits, state, _ = model.decode(memory, last[..., None], state)  # [B, W, 1, V]
    return logits.squeeze(2), state


def log_probabilities(scores: Tensor) -> Tensor:
    """Scores [..., V] → log-probabilities, in float32 at least."""
    return torch.log_softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def next_word(model: CaptionModel, memory: Memory, last: Tensor, state: State) -> tuple[Tensor, State]:
    """The last word of each hypothesis [B, W] → log-probabilities of the next [B, W, V], and the state after it."""
    scores, state = next_scores(model, memory, last, state)
    return log_probabilities(scores), state
