"""What every captioner is: the one interface that search, training, evaluation, reports and checkpoints know.

B videos · R captions (or hypotheses) per video · L words · V vocabulary · H hidden size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.models.config import ModelConfig
from hoca.models.explanation import Explanation
from hoca.models.parts.detector import Detector
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.output import word_bias
from hoca.models.parts.start import Start
from hoca.text import Vocabulary

State = Any  # a tree of tensors [B, R, ...]: all that the words so far have left; `hoca.models.trees`
References = Sequence[Sequence[str]]  # the captions of each video


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a decoder looks at, encoded once per video: a tree of tensors [B, ...], which nobody changes.

    A captioner adds its own fields.
    """

    evidence: Tensor | None = None  # [B, V], of the words that are detected in the videos, where they are


class Decoded(NamedTuple):
    logits: Tensor  # [B, R, L, V], of the word after each of the given ones
    state: State  # after the last word
    hidden: Tensor  # [B, R, L, H], the decoder's output at each word


class Weighted(NamedTuple):
    """An auxiliary loss and what it counts."""

    weight: float
    loss: Tensor  # summed over the captions of the batch


class TrainingBatch(Protocol):
    """What `CaptionModel.losses` may look at."""

    @property
    def features(self) -> dict[str, Tensor]: ...  # modality → [B, T_m, D_m]
    @property
    def lengths(self) -> dict[str, Tensor]: ...  # modality → [B], 0 = missing
    @property
    def words(
        self,
    ) -> Tensor: ...  # [B, R, L + 1]: <bos> … <eos>, then <pad>; a caption that a video lacks is all <pad>
    @property
    def targets(self) -> dict[str, Tensor]: ...  # what `CaptionModel.targets` made, [B, ...] each


class CaptionModel(nn.Module, ABC):
    """A captioner. In eval mode `decode` is a pure function; nothing of a video or a hypothesis is kept on the module.

    A subclass whose class `Config` extends `ModelConfig` implements `encode`, `begin`, `decode` and `embedding`, and is
    given a name by `hoca.models.register`. The rest is there to be overridden where a captioner has it.
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    name: str = ""  # in the registry

    def __init__(self, config: Any, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.detector = Detector(config, len(vocabulary)) if config.word_detector else None

    @abstractmethod
    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> Memory:
        """features[m] [B, T_m, D_m], lengths[m] [B] → what the decoder looks at.

        A length of 0 means missing. A modality may be left out: it is then missing for every video.
        `category` [B] is the number of the video's category, -1 = unknown.
        Where the lengths are on a GPU, no value is looked at on the host, so that a graph can capture this.
        """

    @abstractmethod
    def begin(self, memory: Any, rows: int) -> State:
        """The state before the first word of `rows` captions of each video."""

    @abstractmethod
    def decode(self, memory: Any, words: Tensor, state: State) -> Decoded:
        """words [B, R, L], any L ≥ 1, the first of all being <bos>: scores of the word after each, and the state."""

    @property
    @abstractmethod
    def embedding(self) -> nn.Embedding:
        """The vectors of the words."""

    def forward(
        self,
        features: Mapping[str, Tensor],
        lengths: Mapping[str, Tensor],
        words: Tensor,
        category: Tensor | None = None,
    ) -> Tensor:
        """Teacher forcing: words [B, R, L] → logits [B, R, L, V]; the rest as in `encode`."""
        memory = self.encode(features, lengths, category)
        return self.decode(memory, words, self.begin(memory, words.shape[1])).logits

    def losses(self, memory: Any, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        """Auxiliary losses by name, added to that of the words in training."""
        return {}

    def look(self, memory: Any, words: Tensor) -> Explanation | None:
        """What was looked at when predicting the word after each of `words` [B, R, L]; None: it cannot tell."""
        return None

    def views(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> Sequence[Memory]:
        """Memories of the same videos that are worth a caption each; the first, which others follow, is `encode`'s."""
        return [self.encode(features, lengths, category)]

    def prepare(self, references: References) -> None:
        """Fit what the model takes from the captions of the training videos: buffers, which a checkpoint keeps."""

    def set_lengths(self, lengths: Mapping[str, Tensor]) -> None:
        """lengths[m] [videos], 0 = missing: the time steps of the training videos, for `prepare`."""

    def targets(self, references: Sequence[str]) -> dict[str, Tensor]:
        """From all captions of one video, what a batch carries to `losses`."""
        return {}

    def describe(self) -> str:
        """What kind of captioner this is, in a few words, for a report."""
        return self.name

    @torch.no_grad()
    def set_word_vectors(self, vectors: Tensor, found: Tensor) -> None:
        """vectors [V, E]; rows with found [V] False are drawn with the spread of the others."""
        weight = self.embedding.weight
        weight.normal_(0.0, float(vectors[found].std()) if bool(found.any()) else 1.0)
        weight[found] = vectors[found].to(weight)

    def set_category_vectors(self, vectors: Tensor) -> None:
        """vectors [categories, width] of the names in `config.categories`."""
        start = getattr(self, "start", None)
        if not isinstance(start, Start):
            raise UserError(f"{self.name} does not start from a category: leave category_vectors out")
        start.vectors.copy_(vectors)

    @property
    def word_bias(self) -> Tensor:
        """The bias of the output layer, [V]."""
        bias = word_bias(getattr(self, "output", None))
        if bias is None:
            raise UserError(f"{self.name} has no bias of an output layer: leave unigram_bias out")
        return bias

    @torch.no_grad()
    def set_word_frequencies(self, frequency: Tensor) -> None:
        """frequency [V], summing to one: what the words' probabilities are before anything is learned."""
        self.word_bias.copy_(frequency.log())

    def detect(self, batch: FeatureBatch) -> Tensor | None:
        """The evidence of `Memory`, where this model has a word detector."""
        return None if self.detector is None else self.detector(batch.features, batch.lengths)


@runtime_checkable
class ScoresPlaces(Protocol):
    """A captioner without auxiliary losses that can score some places of the words alone, in fixed shapes."""

    def forward_at(
        self,
        features: Mapping[str, Tensor],
        lengths: Mapping[str, Tensor],
        ragged: frozenset[str],
        words: Tensor,
        places: Tensor,
        category: Tensor | None = None,
    ) -> Tensor:
        """`forward` at some places [B, Q] of each video's R·L words: logits [B, Q, V], and a few more that are -inf.

        No value is looked at on the host, so that a GPU can run this from a captured graph: lengths[m] [B] are where
        the model is, `ragged` names the modalities with lengths that may be shorter than their features, and every
        video has a modality.
        """
