"""Which word may come next. What is not allowed is never chosen; the probabilities of the rest are left as they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from hoca.errors import UserError
from hoca.ops.copies import kept
from hoca.text import Vocabulary


@dataclass(frozen=True)
class SentenceLimits:
    min_length: int = 1  # words before <eos>
    max_length: int = 30  # then <eos> is the only choice
    no_repeat: int = 0  # no sequence of this many words occurs twice; 0 = off
    unknown: bool = False  # may <unk> be said?
    not_first: tuple[str, ...] = ()  # words that no sentence begins with

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise UserError(f"min_length={self.min_length} must lie between 0 and max_length={self.max_length}")
        if self.no_repeat < 0:
            raise UserError(f"no_repeat={self.no_repeat} must be 0 (off) or the length of the sequences")

    def blocked(self, words: Tensor, vocabulary: Vocabulary) -> Tensor:
        """words [B, W, S] so far, <bos> first → bool [B, W, V] (or [1, 1, V]), True = may not come next."""
        said = words.shape[2] - 1
        if said >= self.max_length:
            blocked = torch.ones(1, 1, len(vocabulary), dtype=torch.bool, device=words.device)
            blocked[..., vocabulary.eos] = False
            return blocked
        short = said < self.min_length
        blocked = kept(partial(self._never, vocabulary, words.device, short), self, id(vocabulary), words.device, short)
        if not said and self.not_first:
            blocked = blocked.clone()
            for word in self.not_first:
                if word in vocabulary:
                    blocked[..., vocabulary[word]] = True
        if self.no_repeat and said >= self.no_repeat:
            blocked = blocked | self._repeats(words[:, :, 1:], len(vocabulary))
            blocked[..., vocabulary.eos] &= ~blocked.all(-1)  # nothing else left to say: end
        return blocked

    def _never(self, vocabulary: Vocabulary, device: torch.device, short: bool) -> Tensor:
        """[1, 1, V], True = may not come next whatever was said; `short`: nor may the end."""
        blocked = torch.zeros(1, 1, len(vocabulary), dtype=torch.bool, device=device)
        for never in (vocabulary.pad, vocabulary.bos):  # one by one: a list would be copied to the device
            blocked[..., never] = True
        blocked[..., vocabulary.unk] = not self.unknown
        blocked[..., vocabulary.eos] = short
        return blocked

    def _repeats(self, said: Tensor, size: int) -> Tensor:
        """said [B, W, S] → [B, W, V], True for words that would complete a sequence a second time."""
        windows = said.unfold(2, self.no_repeat, 1)  # [B, W, S - n + 1, n]
        ending = said[:, :, said.shape[2] - self.no_repeat + 1 :]  # [B, W, n - 1]
        again = (windows[..., :-1] == ending[:, :, None]).all(-1)  # [B, W, S - n + 1]
        counts = torch.zeros(*said.shape[:2], size, dtype=torch.long, device=said.device)
        return counts.scatter_add_(2, windows[..., -1], again.long()) > 0
