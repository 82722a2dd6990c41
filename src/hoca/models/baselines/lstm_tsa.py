"""LSTM-TSA: attributes of several sources, mixed by a transfer unit at every word (after Pan et al., CVPR 2017).

Attributes are frequent words of the captions, seen in the steps of a source by a noisy OR. Each modality is a source:

    γ_k = softmax over k, element by element, of (G_s,k y_t + G_h,k h_{t-1} + G_a,k A_k)
    x_t = T_s y_t + Σ_k γ_k ⊙ T_k A_k,   h_t = LSTM(h_{t-1}, x_t), words are scored from h_t

The decoder reads the video's mean features once, before the first word. There is no attention.

Where public descriptions leave it open, or differ: the paper has two sources, attributes learned from images and from
videos, and a sigmoid between them; a softmax over n sources is that for n = 2. Sources are the modalities, all with one
list of attributes; heads learn together with the captions. What the published attributes were is not known in detail,
hence "-style".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.baselines.recnet import masked_mean
from hoca.models.config import SCALE, SIZE, ModelConfig
from hoca.models.interface import CaptionModel, Decoded, Explanation, References, TrainingBatch, Weighted
from hoca.models.parts.encoder import encoder
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.lexicon import WordList
from hoca.models.parts.mil import MilHead, misses, noisy_or_loss, per_caption, probability
from hoca.models.parts.output import WordScores
from hoca.models.parts.pooling import SummedVideo
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.ops.linear import Linear
from hoca.options import option
from hoca.text import Vocabulary

ATTRIBUTES = "attributes"


@dataclass(frozen=True)
class LSTMTSAConfig(ModelConfig):
    encoder: Literal["bilstm", "none"] = option("bilstm", "encoder of each modality; none = the features as they are")
    attributes: int = option(1000, "number of attribute words", least=1, below=SIZE)
    attribute_weight: float = option(0.2, "weight of the attributes' loss", least=0, below=SCALE)
    decoder_hidden: int = option(512, "size of the decoder", least=1, below=SIZE)


@dataclass(frozen=True)
class LSTMTSAMemory(interface.Memory):
    video: Tensor  # [B, H], what the decoder reads before the first word
    inputs: Tensor  # T_k A_k, [B, N, H]
    gates: Tensor  # G_a,k A_k, [B, N, H]
    present: Tensor  # [B, N] bool
    missed: dict[str, Tensor]  # -log(1 - A_k) of each modality, [B, K]
    start: HiddenState  # each [B, H]


@register(
    "lstm-tsa",
    source="after Pan et al., CVPR 2017",
    about="attributes of each modality, mixed at every word: LSTM-TSA-style",
    fidelity="C",
)
class LSTMTSA(CaptionModel):
    Config = LSTMTSAConfig
    config: LSTMTSAConfig

    def __init__(self, config: LSTMTSAConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        hidden, embedding = config.decoder_hidden, config.embedding
        self.encoder = encoder(config, config.encoder)
        widths = self.encoder.widths
        self.start = Start(replace(config, hidden=hidden))
        self.attributes = WordList(config.attributes)
        self.detectors = MilHead(widths, config.attributes, config.max_steps)
        self.video = SummedVideo(widths, hidden)  # T_v0
        self.words = nn.Embedding(len(vocabulary), embedding)
        self.word_input = Linear(embedding, hidden)  # T_s
        self.word_gates = Linear(embedding, len(widths) * hidden)  # G_s
        self.state_gates = nn.Linear(hidden, len(widths) * hidden, bias=False)  # G_h
        self.inputs = nn.ModuleDict({m: Linear(config.attributes, hidden, bias=False) for m in widths})  # T_k
        self.gates = nn.ModuleDict({m: Linear(config.attributes, hidden, bias=False) for m in widths})  # G_a
        self.cell = nn.LSTMCell(hidden, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.output = WordScores(hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    def prepare(self, references: References) -> None:
        if self.attributes.fit(references, self.vocabulary):
            self.detectors.begin(self.attributes.frequency)

    def set_lengths(self, lengths: Mapping[str, Tensor]) -> None:
        """A source is a bag of its own, where a video has it."""
        given = {m: x[x > 0].double() for m, x in lengths.items()}
        self.detectors.steps |= {m: float(x.mean()) for m, x in given.items() if len(x)}

    def targets(self, references: Sequence[str]) -> dict[str, Tensor]:
        return {ATTRIBUTES: self.attributes.labels(references, self.vocabulary)}

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> LSTMTSAMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        encoded = self.encoder(batch)
        pooled = {m: masked_mean(x, batch.masks[m]) for m, x in encoded.items()}
        missed = {m: misses(self.detectors(m, x), batch.masks[m]) * self.attributes.listed for m, x in encoded.items()}
        seen = {m: probability(x).to(encoded[m].dtype) for m, x in missed.items()}  # A_k, [B, K]
        return LSTMTSAMemory(
            video=self.video(pooled, batch.present),
            inputs=torch.stack([self.inputs[m](x) for m, x in seen.items()], dim=1),
            gates=torch.stack([self.gates[m](x) for m, x in seen.items()], dim=1),
            present=torch.stack(list(batch.present.values()), dim=1),
            missed=missed,
            start=self.start(category, next(iter(encoded.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: LSTMTSAMemory, rows: int) -> HiddenState:
        """After the step that reads the video."""
        h, c = memory.start
        return for_rows(self.cell(memory.video.to(h.dtype), (h, c)), rows)

    def decode(self, memory: LSTMTSAMemory, words: Tensor, state: HiddenState) -> Decoded:
        hidden, state, _ = self._roll(memory, words, state)
        return Decoded(self.output(hidden), state, hidden)

    def losses(self, memory: LSTMTSAMemory, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        """Of the attributes in the captions: summed over them, a mean over the sources that a video has."""
        if not self.config.attribute_weight:
            return {}
        listed = self.attributes.listed
        labels = batch.targets[ATTRIBUTES].to(memory.missed[next(iter(memory.missed))].dtype)
        each = [(noisy_or_loss(x, labels) * listed).sum(1) for x in memory.missed.values()]
        mean = (torch.stack(each, dim=1) * memory.present).sum(1) / memory.present.sum(1)  # [B]
        loss = per_caption(mean, batch.words, self.vocabulary.pad)
        return {ATTRIBUTES: Weighted(self.config.attribute_weight, loss)}

    def look(self, memory: LSTMTSAMemory, words: Tensor) -> Explanation:
        """How much each word took from each source, and the attributes of the video by source."""
        *_, gamma = self._roll(memory, words, self.begin(memory, words.shape[1]))  # [B, R, L, N]
        found = {
            f"{ATTRIBUTES} in {m}": self.attributes.named(probability(x), self.vocabulary)
            for m, x in memory.missed.items()
        }
        return Explanation(
            choices={"attributes taken from": dict(zip(memory.missed, gamma.unbind(-1), strict=True))},
            found={name: items for name, items in found.items() if items},
        )

    def _roll(self, memory: LSTMTSAMemory, words: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState, Tensor]:
        """words [B, R, L] → h [B, R, L, H] with dropout, the state after the last, the mean of γ [B, R, L, N]."""
        embedded = self.dropout(self.words(words))  # [B, R, L, E]
        inputs, word_gates = self.word_input(embedded), self._given(memory, self.word_gates(embedded))
        known = word_gates + memory.gates[:, None, None].to(word_gates.dtype)  # [B, R, L, N, H]
        absent = ~memory.present[:, None, :, None]  # [B, 1, N, 1]
        attributes = memory.inputs[:, None]  # [B, 1, N, H]
        h, c = (part.flatten(0, 1) for part in state)  # [B·R, H]
        rows, outputs, shares = words.shape[:2], [], []
        for given, gates in zip(inputs.unbind(2), known.unbind(2), strict=True):
            scores = gates + self._given(memory, self.state_gates(h)).unflatten(0, rows)
            gamma = torch.softmax(scores.masked_fill(absent, float("-inf")), dim=2)  # [B, R, N, H]
            x = given + (gamma.to(attributes.dtype) * attributes).sum(2)
            h, c = self.cell(x.flatten(0, 1).to(h.dtype), (h, c))
            outputs.append(h.unflatten(0, rows))
            shares.append(gamma.mean(-1))
        hidden = self.dropout(torch.stack(outputs, dim=2))  # [B, R, L, H]
        return hidden, (h.unflatten(0, rows), c.unflatten(0, rows)), torch.stack(shares, dim=2)

    def _given(self, memory: LSTMTSAMemory, gates: Tensor) -> Tensor:
        """[..., modalities · H] → those of the modalities that some video has, [..., N, H]."""
        each = dict(zip(self.config.modalities, gates.chunk(len(self.config.modalities), dim=-1), strict=True))
        return torch.stack([each[m] for m in memory.missed], dim=-2)
