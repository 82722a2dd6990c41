"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from hoca.generation.step import inference
from hoca.models import CaptionModel, Explanation, Memory
from hoca.text import Vocabulary


@dataclass(frozen=True)
class Hypotheses:
    """W sentences for each of B videos, best first.

    `logprob` is log p(sentence, <eos> included), as teacher forcing gives it; -inf marks a place left empty because
    fewer than W sentences exist.
    """

    words: Tensor  # [B, W, S] ids: <bos> ... <eos>, then <pad>
    logprob: Tensor  # [B, W]
    score: Tensor  # [B, W], what the order is by: log p over length to the power of the length penalty, plus `detected`
    detected: Tensor | None = None  # [B, W], what words that were detected in the video add to the score
    explanation: Explanation | None = None  # of each word and of <eos>, where it was asked for and the model can tell

    def texts(self, vocabulary: Vocabulary) -> list[list[str]]:
        """The sentences of each video; places left empty are left out."""
        return [
            [vocabulary.decode(words) for words, p in zip(rows, logprob, strict=True) if p > float("-inf")]
            for rows, logprob in zip(self.words.tolist(), self.logprob.tolist(), strict=True)
        ]

    def explained(self, model: CaptionModel, memory: Memory) -> Hypotheses:
        """The same with what each word looked at: one call for all words, as teacher forcing sees them."""
        with inference(model):
            return replace(self, explanation=model.look(memory, self.words[:, :, :-1]))
