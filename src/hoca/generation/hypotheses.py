"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from hoca.data.vocabulary import Vocabulary
from hoca.generation.step import inference
from hoca.models import Attention, Captioner, Memory


@dataclass(frozen=True)
class Hypotheses:
    """W sentences for each of B videos, best first.

    `logprob` is log p(sentence, <eos> included), as teacher forcing gives it; -inf marks a place left empty because
    fewer than W sentences exist.
    """

    words: Tensor  # [B, W, S] ids: <bos> ... <eos>, then <pad>
    logprob: Tensor  # [B, W]
    score: Tensor  # [B, W], what the order is by: log p over length to the power of the length penalty
    attention: Attention | None = None  # of each word and of <eos>, where it was asked for

    def texts(self, vocabulary: Vocabulary) -> list[list[str]]:
        """The sentences of each video; places left empty are left out."""
        return [
            [vocabulary.decode(words) for words, p in zip(rows, logprob, strict=True) if p > float("-inf")]
            for rows, logprob in zip(self.words.tolist(), self.logprob.tolist(), strict=True)
        ]

    def with_attention(self, model: Captioner, memory: Memory) -> Hypotheses:
        """The same with what each word looked at: one call for all words, as teacher forcing sees them."""
        with inference(model):
            return replace(self, attention=model.look(memory, self.words[:, :, :-1]))
