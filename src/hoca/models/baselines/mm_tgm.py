"""MM-TGM-style: the topics of a video make the weights of the LSTM (Chen et al., ACM Multimedia 2017, class C).

The teacher is a topic model of the training captions, one document per video. The student predicts the document's
topics z from all modalities, and z makes the weights of the decoder as tags do in SCN: each topic is an expert, z
weighs them. Both are trained at once, and the words teach the student too.

Reconstructed from the abstracts and memory. Chosen where they do not say: 20 topics; loss weight 1; topics of captions
alone, without visual words; the student's z drives the decoder in training as in use; the video enters as the first
input and, unless `video: first`, as a term of every step. The journal version's topic gate over decoders of single
modalities is left out, and so are its speech and category inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.models.config import SCALE, SIZE
from hoca.models.interface import Decoded, Explanation, References, TrainingBatch, Weighted
from hoca.models.parts.coded_captioner import CodedCaptioner, CodedConfig, CodedMemory
from hoca.models.parts.topics import fit_topics, name_topics, topics_of
from hoca.models.registry import register
from hoca.options import option
from hoca.text import Vocabulary, content_words

TOPICS = "topics"


@dataclass(frozen=True)
class MMTGMConfig(CodedConfig):
    tie_words: bool = option(False, "use the word vectors as the output layer")
    topics: int = option(20, "K, topics of the training captions", least=1, below=SIZE)
    topic_weight: float = option(
        1.0, "λ, weight of the divergence of predicted topics from the captions'", least=0, below=SCALE
    )


@register(
    "mm-tgm",
    source="after Chen et al., ACM MM 2017",
    about="MM-TGM-style: predicted topics make the weights of the LSTM",
    fidelity="C",
)
class MMTGM(CodedCaptioner):
    Config = MMTGMConfig
    config: MMTGMConfig
    topics: Tensor

    def __init__(self, config: MMTGMConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, code=config.topics, active=1.0)
        self.register_buffer("topics", torch.zeros(len(vocabulary), config.topics))  # as `fit_topics` has them

    def code(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=1)

    def prepare(self, references: References) -> None:
        """Find the topics; those that the weights of a trained model know stay."""
        if not bool(self.topics.any()):
            documents = [self._document(captions) for captions in references]
            self.topics.copy_(fit_topics(documents, self.config.topics, len(self.vocabulary)))

    def targets(self, references: Sequence[str]) -> dict[str, Tensor]:
        return {TOPICS: topics_of(self._document(references), self.topics)}

    def losses(self, memory: CodedMemory, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        """KL(θ ‖ z)."""
        theta = batch.targets[TOPICS].to(memory.logits.dtype)
        each = F.kl_div(torch.log_softmax(memory.logits, dim=1), theta, reduction="none").sum(1)  # [B]
        return {TOPICS: Weighted(self.config.topic_weight, self.per_caption(each, batch))}

    def look(self, memory: CodedMemory, words: Tensor) -> Explanation:
        if not bool(self.topics.any()):
            return Explanation()
        named = name_topics(self.topics.cpu(), self.vocabulary.tokens)
        return Explanation(found={TOPICS: dict(zip(named, self.code(memory.logits).unbind(1), strict=True))})

    def describe(self) -> str:
        return f"MM-TGM-style: an LSTM whose weights are made by {self.config.topics} topics"

    def _document(self, captions: Sequence[str]) -> list[int]:
        words = [word for caption in captions for word in content_words(caption)]
        return [self.vocabulary[word] for word in words if word in self.vocabulary]
