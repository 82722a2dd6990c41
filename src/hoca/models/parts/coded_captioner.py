"""A captioner that first predicts a code of the video, then lets the code make the weights of its LSTM."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.config import SIZE, ModelConfig
from hoca.models.interface import CaptionModel, Decoded, TrainingBatch
from hoca.models.parts.factor_lstm import Coded, FactorLSTM
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.output import TiedScores, WordScores
from hoca.models.parts.pooling import Pooled, SummedVideo
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.options import option
from hoca.text import Vocabulary


@dataclass(frozen=True)
class CodedConfig(ModelConfig):
    encoder: Literal["bilstm", "linear", "none"] = option(
        "bilstm", "encoder of each modality: a BiLSTM before the mean, a linear layer after it, or none"
    )
    factors: int = option(512, "width of the factors of the LSTM's weights", least=1, below=SIZE)
    video: Literal["first", "every"] = option(
        "every", "where the video features enter: at the first step, or at every step"
    )
    tie_words: bool = option(True, "use the word vectors as the output layer")


@dataclass(frozen=True)
class CodedMemory(interface.Memory):
    logits: Tensor  # of the code, [B, K]
    first: Tensor  # the video in place of <bos>, [B, E]
    coded: Coded
    start: HiddenState  # each [B, H]


class CodeHead(nn.Module):
    """Pooled modalities → logits of the code: two layers."""

    def __init__(self, config: CodedConfig, widths: Mapping[str, int], code: int) -> None:
        super().__init__()
        self.inner = SummedVideo(widths, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.outer = nn.Linear(config.hidden, code)

    def forward(self, pooled: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Tensor:
        """pooled[m] [B, D_m], present[m] [B] → [B, K]."""
        return self.outer(self.dropout(torch.tanh(self.inner(pooled, present))))


class CodedCaptioner(CaptionModel):
    """The first input of the LSTM is the video in place of <bos>."""

    Config = CodedConfig
    config: CodedConfig

    def __init__(self, config: CodedConfig, vocabulary: Vocabulary, *, code: int, active: float) -> None:
        super().__init__(config, vocabulary)
        self.pooled = Pooled(config, config.encoder)
        widths = self.pooled.widths
        self.head = CodeHead(config, widths, code)
        self.first = SummedVideo(widths, config.embedding)
        self.start = Start(config)
        self.words = nn.Embedding(len(vocabulary), config.embedding)
        self.cell = FactorLSTM(
            inputs=config.embedding,
            hidden=config.hidden,
            factors=config.factors,
            code=code,
            active=active,
            videos=widths if config.video == "every" else {},
        )
        self.dropout = nn.Dropout(config.dropout)
        if config.tie_words:
            self.output: TiedScores | WordScores = TiedScores(config.hidden, config.embedding, len(vocabulary))
        else:
            self.output = WordScores(config.hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    @abstractmethod
    def code(self, logits: Tensor) -> Tensor:
        """logits [B, K] → the code that makes the weights."""

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> CodedMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        pooled = self.pooled(batch)
        logits = self.head(pooled, batch.present)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return CodedMemory(
            logits=logits,
            first=self.first(pooled, batch.present),
            coded=self.cell.coded(self.code(logits), pooled, batch.present),
            start=self.start(category, next(iter(batch.features.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: CodedMemory, rows: int) -> HiddenState:
        return for_rows(memory.start, rows)

    def decode(self, memory: CodedMemory, words: Tensor, state: HiddenState) -> Decoded:
        embedded = self.words(words)  # [B, R, L, E]
        begins = (words == self.vocabulary.bos)[..., None]
        inputs = torch.where(begins, memory.first[:, None, None].to(embedded.dtype), embedded)
        hidden, state = self.cell(self.dropout(inputs), memory.coded, state)
        hidden = self.dropout(hidden)
        if isinstance(self.output, TiedScores):
            return Decoded(self.output(hidden, self.words.weight), state, hidden)
        return Decoded(self.output(hidden), state, hidden)

    def per_caption(self, losses: Tensor, batch: TrainingBatch) -> Tensor:
        """The losses of the videos [B], summed over the captions that each has in the batch."""
        captions = (batch.words[:, :, 1:] != self.vocabulary.pad).any(2).sum(1)  # [B]
        return (losses * captions).sum()
