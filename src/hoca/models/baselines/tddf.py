"""TDDF-style: each word chooses how the modalities are fused (Zhang et al., CVPR 2017, class C, lowest confidence).

φ_m = Att(h_{t-1}, V_m) of each modality, then a pattern of fusion per modality and one of all together:

centred on m   f_m = tanh(W_m φ_m + R_m (φ_m ∘ mean of the other φ) + b_m)
joint          f_J = tanh(Σ_m J_m φ_m + b_J)
choice         γ = softmax_k(w · tanh(U h_{t-1} + Z f_k)), over the patterns of the modalities that a video has
               h_t = LSTM(h_{t-1}, [y_t; Σ_k γ_k f_k]), words are scored from [h_t; Σ_k γ_k f_k]

Reconstructed from the abstract and memory, where appearance and motion are the only modalities: how patterns are made,
that attention comes before fusion, and that the choice is soft, are not confirmed. With one modality the products are
zero. No sparseness is asked of γ, which may settle on one pattern early: `hoca explain` shows it.

The output bias starts at the words' log frequencies. Otherwise how often words are said, the same for every video, is
learned first and by every layer: within 25 steps of Adam the tanh of all patterns is saturated and passes no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.config import SIZE, ModelConfig
from hoca.models.interface import CaptionModel, Decoded, Explanation
from hoca.models.parts.attention import AdditiveAttention
from hoca.models.parts.encoder import Encoder
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.lstm import lstm_step
from hoca.models.parts.output import WordScores
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.options import option
from hoca.text import Vocabulary

JOINT = "all together"  # the joint pattern; no modality can have this name


@dataclass(frozen=True)
class TDDFConfig(ModelConfig):
    unigram_bias: bool = option(True, "start the output bias at the words' log frequencies in the training captions")
    attention: int = option(256, "width of the attention and of the choice among patterns", least=1, below=SIZE)


@dataclass(frozen=True)
class TDDFMemory(interface.Memory):
    values: dict[str, Tensor]  # φ, W φ and J φ are means of these, [B, T_m, 3H]
    keys: dict[str, Tensor]  # [B, T_m, A]
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real
    present: Tensor  # modalities in their order, then the joint pattern, [B, N + 1] bool
    start: HiddenState  # each [B, H]


class Fused(NamedTuple):
    context: Tensor  # Σ γ f, [B, R, H]
    chosen: Tensor  # γ, [B, R, N + 1]
    weights: dict[str, Tensor]  # α, [B, R, T_m]


@register(
    "tddf",
    source="after Zhang et al., CVPR 2017",
    about="TDDF-style: each word chooses how the modalities are fused",
    fidelity="C",
)
class TDDF(CaptionModel):
    Config = TDDFConfig
    config: TDDFConfig

    def __init__(self, config: TDDFConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        hidden, names = config.hidden, list(config.modalities)
        self.encoder = Encoder(config)
        self.start = Start(config)
        self.words = nn.Embedding(len(vocabulary), config.embedding)
        self.attention = nn.ModuleDict({m: AdditiveAttention(hidden, 2 * hidden, config.attention) for m in names})
        self.project = nn.ModuleDict({m: nn.Linear(2 * hidden, hidden, bias=False) for m in names})  # φ
        self.own = nn.ModuleDict({m: nn.Linear(hidden, hidden, bias=False) for m in names})  # W
        self.relate = nn.ModuleDict({m: nn.Linear(hidden, hidden) for m in names})  # R, b
        self.join = nn.ModuleDict({m: nn.Linear(hidden, hidden, bias=False) for m in names})  # J
        self.joint_bias = nn.Parameter(torch.zeros(hidden))
        self.query = nn.Linear(hidden, config.attention)  # U
        self.pattern = nn.Linear(hidden, config.attention, bias=False)  # Z
        self.channel = nn.Linear(config.attention, 1, bias=False)  # w
        self.word_gates = nn.Linear(config.embedding, 4 * hidden)
        self.other_gates = nn.Linear(2 * hidden, 4 * hidden, bias=False)  # of the fused context and of h
        self.dropout = nn.Dropout(config.dropout)
        self.output = WordScores(2 * hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> TDDFMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        values, keys = {}, {}
        for m, encoded in self.encoder(batch).items():
            keys[m] = self.attention[m].project(encoded)  # type: ignore[operator]
            projected = self.project[m](encoded)
            # Attention is a mean: maps of a context are means of mapped steps, which are mapped once.
            values[m] = torch.cat([projected, self.own[m](projected), self.join[m](projected)], dim=-1)
        always = torch.ones_like(next(iter(batch.present.values())))
        return TDDFMemory(
            values=values,
            keys=keys,
            masks=batch.masks,
            present=torch.stack([*batch.present.values(), always], dim=1),
            start=self.start(category, next(iter(batch.features.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: TDDFMemory, rows: int) -> HiddenState:
        return for_rows(memory.start, rows)

    def decode(self, memory: TDDFMemory, words: Tensor, state: HiddenState) -> Decoded:
        hidden, contexts, state, _ = self._roll(memory, words, state)
        return Decoded(self.output(self.dropout(torch.cat([hidden, contexts], dim=-1))), state, hidden)

    def look(self, memory: TDDFMemory, words: Tensor) -> Explanation:
        *_, fused = self._roll(memory, words, self.begin(memory, words.shape[1]))
        chosen = torch.stack([each.chosen for each in fused], dim=2).unbind(-1)  # N + 1 of [B, R, L]
        return Explanation(
            attention={m: torch.stack([each.weights[m] for each in fused], dim=2) for m in memory.values},
            choices={"fusion": dict(zip([*memory.values, JOINT], chosen, strict=True))},
        )

    def describe(self) -> str:
        return "TDDF-style: each word chooses how the modalities are fused"

    def _roll(
        self, memory: TDDFMemory, words: Tensor, state: HiddenState
    ) -> tuple[Tensor, Tensor, HiddenState, list[Fused]]:
        """words [B, R, L] → h and fused contexts [B, R, L, H], the state after the last, and how each word fused."""
        given = self.word_gates(self.dropout(self.words(words)))  # [B, R, L, 4H]
        h, c = state
        outputs, fused = [], []
        for gates in given.unbind(2):
            fused.append(self._fuse(memory, h))
            h, c = lstm_step(gates + self.other_gates(torch.cat([fused[-1].context.to(h.dtype), h], dim=-1)), c)
            outputs.append(h)
        contexts = torch.stack([each.context for each in fused], dim=2)
        return torch.stack(outputs, dim=2), contexts, (h, c), fused

    def _fuse(self, memory: TDDFMemory, h: Tensor) -> Fused:
        """h [B, R, H] → the patterns, weighted by the choice among them."""
        contexts, own, weights = [], [], {}
        joint: Tensor = self.joint_bias
        for m, values in memory.values.items():
            attended, weights[m] = self.attention[m](h, memory.keys[m], values, memory.masks[m])  # [B, R, 3H]
            context, mapped, joined = attended.chunk(3, dim=-1)
            contexts.append(context)
            own.append(mapped)
            joint = joint + joined  # a missing modality's context is zero
        total = torch.stack(contexts).sum(0)
        others = (memory.present[:, :-1].sum(1) - 1).clamp(min=1)[:, None, None]  # [B, 1, 1]
        patterns = [
            torch.tanh(mapped + self.relate[m](context * (total - context) / others))
            for m, context, mapped in zip(memory.values, contexts, own, strict=True)
        ]
        stacked = torch.stack([*patterns, torch.tanh(joint)], dim=2)  # [B, R, N + 1, H]
        scores = self.channel(torch.tanh(self.query(h)[:, :, None] + self.pattern(stacked))).squeeze(-1)
        chosen = torch.softmax(scores.masked_fill(~memory.present[:, None], float("-inf")), dim=-1)
        return Fused(torch.einsum("brk,brkh->brh", chosen.to(stacked.dtype), stacked), chosen, weights)
