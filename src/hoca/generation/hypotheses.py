"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hoca.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class Hypotheses:
    """W sentences for each of B videos, best first.

    `logprob` is log p(sentence, <eos> included), as teacher forcing gives it; -inf marks a place left empty because
    fewer than W sentences exist.
    """

    words: Tensor  # [B, W, S] ids: <bos> ... <eos>, then <pad>
    logprob: Tensor  # [B, W]
    score: Tensor  # [B, W], what the order is by: log p over length to the power of the length penalty

    def texts(self, vocabulary: Vocabulary) -> list[list[str]]:
        """The sentences of each video; places left empty are left out."""
        return [
            [vocabulary.decode(words) for words, p in zip(rows, logprob, strict=True) if p > float("-inf")]
            for rows, logprob in zip(self.words.tolist(), self.logprob.tolist(), strict=True)
        ]
