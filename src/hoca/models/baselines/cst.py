"""CST: a plain LSTM over pooled features, the network of consensus training (Phan et al., 2017, class A).

Each modality is one vector; all of them, one after the other, are given to the LSTM with every word. What the paper is
about are its objectives, which train any captioner here: `wxe`, then `scst-consensus`.

Where this differs: categories, a fourth input of the paper, give the start state as they do in HOCA, where a recipe
asks for them. A missing modality, which the paper has not, is a learned vector and a flag. wxe is scaled to a mean
weight of 1. Both sides of the consensus baseline are CIDEr-D; the released code takes CIDEr for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.config import ModelConfig
from hoca.models.explanation import Matrix, Names
from hoca.models.interface import CaptionModel, Decoded, Explanation
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.lstm import unroll
from hoca.models.parts.output import WordScores
from hoca.models.parts.pooling import FlaggedVideo, Pooled
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.options import option
from hoca.text import Vocabulary

TINY = 1e-30


@dataclass(frozen=True)
class CSTConfig(ModelConfig):
    encoder: Literal["bilstm", "linear"] = option(
        "bilstm", "encoder of each modality: a BiLSTM before the mean, or a linear layer after it"
    )


@dataclass(frozen=True)
class CSTMemory(interface.Memory):
    fused: Tensor  # the vectors of all modalities, one after the other, and the flags, [B, ...]
    video: Tensor  # its part of the gates, [B, 4H]
    present: dict[str, Tensor]  # [B] bool
    start: HiddenState  # each [B, H]


@register(
    "cst",
    source="Phan et al., 2017",
    about="pooled features at every step of an LSTM, for consensus training",
    fidelity="A",
)
class CST(CaptionModel):
    Config = CSTConfig
    config: CSTConfig

    def __init__(self, config: CSTConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.pooled = Pooled(config, config.encoder)
        self.fused = FlaggedVideo(self.pooled.widths)
        self.start = Start(config)
        self.words = nn.Embedding(len(vocabulary), config.embedding)
        gates = 4 * config.hidden
        self.word_gates = nn.Linear(config.embedding, gates, bias=False)
        self.video_gates = nn.Linear(self.fused.width, gates, bias=False)
        self.history_gates = nn.Linear(config.hidden, gates, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.output = WordScores(config.hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> CSTMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        video = self.fused(self.pooled(batch), batch.present)
        return CSTMemory(
            fused=video,
            video=self.video_gates(video),
            present=batch.present,
            start=self.start(category, next(iter(batch.features.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: CSTMemory, rows: int) -> HiddenState:
        return for_rows(memory.start, rows)

    def decode(self, memory: CSTMemory, words: Tensor, state: HiddenState) -> Decoded:
        given = self.word_gates(self.dropout(self.words(words))) + memory.video[:, None, None]  # [B, R, L, 4H]
        hidden, state = unroll(given, state, self.history_gates)
        hidden = self.dropout(hidden)
        return Decoded(self.output(hidden), state, hidden)

    def look(self, memory: CSTMemory, words: Tensor) -> Explanation:
        """No word looks at anything. But what the video adds to the gates is a sum with a term of each modality: their
        lengths, as shares of those that the video has."""
        widths = list(self.pooled.widths.values())
        vectors = memory.fused.split([*widths, len(widths)], dim=1)
        weights = self.video_gates.weight.to(memory.fused.dtype).split([*widths, len(widths)], dim=1)
        terms = zip(self.pooled.widths, vectors, weights, strict=False)  # the flags are left out
        lengths = {m: (x @ weight.t()).norm(dim=1) for m, x, weight in terms if m in memory.present}
        size = torch.stack([length * memory.present[m] for m, length in lengths.items()], dim=1)  # [B, N]
        share = (size / size.sum(1, keepdim=True).clamp(min=TINY))[:, None, None].expand(-1, words.shape[1], -1, -1)
        about = "length of each modality's term of the gates, the same for every word"
        shares = Matrix(share, Names(("share",)), Names(tuple(lengths)), about, "rows")
        return Explanation(matrices={"share in the pooled video": shares})

    def describe(self) -> str:
        return "an LSTM over pooled features"
