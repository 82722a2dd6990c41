"""SCN: the tags of a video make the weights of the LSTM that tells of it (Gan et al., CVPR 2017, class A).

A tagger predicts the probabilities s of some hundred frequent words from the pooled video. Each weight matrix of the
LSTM is A diag(s B) C', one set of factors for all videos; the video is the first input, and a term of every step.

Where this differs: the tags of the paper were picked by hand among the most frequent words; here they are the most
frequent content words of the training captions after a stop list. Tagger and decoder may be trained together, or one
after the other as the authors did (the recipe scn-paper); either way the words' loss does not reach the tagger, since
tags are the decoder's input. While both learn, the tagger's dropout reaches the tags. Tags of training videos are
predicted by the tagger that has seen them, as there. Scores of the tied output are scaled by the root of the width, as
those of HOCA are. One model, no ensemble.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.models.config import SCALE, SIZE
from hoca.models.explanation import Matrix, Names, Words
from hoca.models.interface import Decoded, Explanation, References, TrainingBatch, Weighted
from hoca.models.modes import inference
from hoca.models.parts.coded_captioner import CodedCaptioner, CodedConfig, CodedMemory
from hoca.models.parts.features import FeatureBatch
from hoca.models.registry import register
from hoca.options import option
from hoca.text import Vocabulary, content_words

ACTIVE = 10.0  # tags that a video has, about
TAGS = "tags"


@dataclass(frozen=True)
class SCNConfig(CodedConfig):
    tags: int = option(300, "K, the most frequent content words of the training captions", least=1, below=SIZE)
    tag_weight: float = option(1.0, "weight of the tagger's loss, summed over the tags", least=0, below=SCALE)


@register("scn", source="Gan et al., CVPR 2017", about="predicted tags make the weights of the LSTM", fidelity="A")
class SCN(CodedCaptioner):
    Config = SCNConfig
    config: SCNConfig
    tags: Tensor

    def __init__(self, config: SCNConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, code=config.tags, active=ACTIVE)
        self.register_buffer("tags", torch.full((config.tags,), -1))  # ids of the words, -1 = a tag that has none

    def code(self, logits: Tensor) -> Tensor:
        """A tag without a word says nothing; of a model whose tags are not chosen yet, all take part."""
        known = self.tags >= 0
        return self.dropout(torch.sigmoid(logits.detach()) * (known | ~known.any()))

    def predicted(self, batch: FeatureBatch, logits: Tensor) -> Tensor:
        """A tagger that learns no more predicts in training what it predicts in use: without dropout."""
        if not self.training or any(weight.requires_grad for weight in self.head.parameters()):
            return logits
        with inference(self.pooled), inference(self.head):
            return self.head(self.pooled(batch), batch.present).to(logits.dtype)

    def prepare(self, references: References) -> None:
        """Choose the tags; those that the weights of a trained model know stay."""
        if bool((self.tags >= 0).any()):
            return
        said = Counter(word for captions in references for caption in captions for word in content_words(caption))
        ranked = sorted((-count, word) for word, count in said.items() if word in self.vocabulary)
        ids = [self.vocabulary[word] for _, word in ranked[: len(self.tags)]]
        self.tags[: len(ids)] = torch.tensor(ids, dtype=torch.long)

    def targets(self, references: Sequence[str]) -> dict[str, Tensor]:
        said = {self.vocabulary[word] for caption in references for word in content_words(caption)}
        return {TAGS: torch.tensor([float(tag in said) for tag in self.tags.tolist()])}

    def losses(self, memory: CodedMemory, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        said = batch.targets[TAGS].to(memory.logits.dtype)
        each = F.binary_cross_entropy_with_logits(memory.logits, said, reduction="none")  # [B, K]
        return {TAGS: Weighted(self.config.tag_weight, self.per_caption((each * (self.tags >= 0)).sum(1), batch))}

    def look(self, memory: CodedMemory, words: Tensor) -> Explanation:
        """The tags of the video, and what each did for each word."""
        known = self.tags >= 0
        if not bool(known.any()):
            return Explanation()
        names = tuple(self.vocabulary.tokens[id] for id in self.tags[known].tolist())
        probabilities = torch.sigmoid(memory.logits)[:, known].unbind(1)
        influence = self.influence(memory, words)[..., known]
        return Explanation(
            found={TAGS: dict(zip(names, probabilities, strict=True))},
            matrices={"what tags did": Matrix(influence, Words(), Names(names), "tag · ∂ log p / ∂ tag")},
        )

    def describe(self) -> str:
        return f"an LSTM whose weights are made by {len(self.tags)} tags"
