"""HACA: encoders and decoders at two levels of time, which watch, listen and remember (Wang et al., NAACL 2018).

Each modality is encoded by a BiLSTM (low) and, chunk by chunk, by an LSTM over what it attends to within the chunk
(high). A global decoder attends to the high steps, a local one to the low steps; both also attend to their own states
of the words before. At each level a softmax β weighs the modalities and the memory:

    global   h^G_t = LSTM(h^G_{t-1}, [y_t; c^G_t])
    local    h^L_t = LSTM(h^L_{t-1}, [y_t; c^L_t; h^G_t]), words are scored from h^L_t
    c_t = tanh(Σ_k β_k c̃_k), c̃_k the linear map of what is attended to in source k

Where public descriptions leave it open: the global decoder reads the word before, as the public third-party code does;
β's weights are shared by the sources, as there; the high encoder keeps both h and c from chunk to chunk, which that
code forgets. The low encoder is the house's, of one size for all modalities. Scheduled sampling is left out. The output
bias starts at the words' log frequencies: learning these from zero saturates the tanh of c_t within 30 steps of Adam.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.models import interface
from hoca.models.config import SIZE, STEPS, ModelConfig
from hoca.models.explanation import Matrix, Steps, Words
from hoca.models.interface import CaptionModel, Decoded, Explanation
from hoca.models.parts.attention import AdditiveAttention
from hoca.models.parts.encoder import Encoder
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.fusion import HierarchicalFusion
from hoca.models.parts.history import History, LevelState, over_words
from hoca.models.parts.lstm import AheadLSTMCell
from hoca.models.parts.output import WordScores
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.ops.linear import Linear
from hoca.options import option
from hoca.text import Vocabulary

CHUNK = 10  # low steps in a high one, unless told otherwise
REMEMBER = "remember"  # the words before, among what a word chooses from
LEVELS = ("in short", "in detail")  # the global and the local decoder, for those who read an explanation


@dataclass(frozen=True)
class HACAConfig(ModelConfig):
    unigram_bias: bool = option(True, "start the output bias at the words' log frequencies in the training captions")
    attention: int = option(256, "width of every attention", least=1, below=SIZE)
    chunk: Mapping[str, int] = option(
        {}, f"low-level steps per high-level step, by modality; by default {CHUNK}", least=1, below=STEPS
    )
    high_hidden: int = option(256, "size of the high encoders", least=1, below=SIZE)
    global_hidden: int = option(256, "size of the global decoder", least=1, below=SIZE)
    local_hidden: int = option(512, "size of the local decoder", least=1, below=SIZE)
    global_context: int = option(512, "width of the global decoder's context", least=1, below=SIZE)
    local_context: int = option(256, "width of the local decoder's context", least=1, below=SIZE)
    history: int = option(32, "number of earlier decoder states that are remembered", least=1, below=STEPS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := [name for name in self.chunk if name not in self.modalities]:
            raise UserError(f"chunk names {unknown[0]!r}, which is no modality: known: {', '.join(self.modalities)}")
        object.__setattr__(self, "chunk", {m: self.chunk.get(m, CHUNK) for m in self.modalities})


@dataclass(frozen=True)
class Seen:
    """What one level attends to, of each modality."""

    keys: dict[str, Tensor]  # [B, T_m, D]
    values: dict[str, Tensor]  # [B, T_m, C], mapped to the level's context already
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real


@dataclass(frozen=True)
class HACAMemory(interface.Memory):
    low: Seen
    high: Seen
    present: Tensor  # [B, N + 1] bool: the modalities, then the words before
    start: HiddenState  # of the local decoder, each [B, H]


class HACAState(NamedTuple):
    outer: LevelState  # global
    inner: LevelState  # local
    kept: Tensor  # [B, R], how many states the histories have been given; that before the first word is one


class Attended(NamedTuple):
    weights: dict[str, Tensor]  # α, [B, R, T_m]
    shares: Tensor  # β, [B, R, N + 1]
    recalled: Tensor  # α of its own states, [B, R, T + n]: those given, then those of the n words since


class HighEncoder(nn.Module):
    """Of one modality: f_j = Att(k_{j-1}, the low steps of chunk j), k_j = LSTM(k_{j-1}, f_j)."""

    def __init__(self, config: HACAConfig, modality: str) -> None:
        super().__init__()
        low = 2 * config.hidden
        self.chunk = config.chunk[modality]
        self.attention = AdditiveAttention(config.high_hidden, low, config.attention)
        self.cell = nn.LSTMCell(low, config.high_hidden)
        self.dropout = nn.Dropout(config.encoder_dropout)

    def forward(self, low: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """low [B, T, 2H], real [B, T] → high [B, J, K] with J = ⌈T / chunk⌉, zero where nothing is real, and [B, J]."""
        parts = zip(*(x.split(self.chunk, dim=1) for x in (low, self.attention.project(low), real)), strict=True)
        h = c = low.new_zeros(len(low), self.cell.hidden_size)
        states, masks = [], []
        for values, keys, mask in parts:
            context, _ = self.attention(h[:, None], keys, values, mask)
            h, c = self.cell(context[:, 0].to(h.dtype), (h, c))
            states.append(h)
            masks.append(mask.any(1))
        high, here = torch.stack(states, dim=1), torch.stack(masks, dim=1)
        return self.dropout(high.masked_fill(~here[..., None], 0.0)), here


class Level(nn.Module):
    """One decoder: attention to each modality and to its own past, β over them, an LSTM cell."""

    def __init__(self, config: HACAConfig, *, values: int, hidden: int, context: int, beside: int = 0) -> None:
        """values: width of the steps that are attended to; beside: of what comes with the context."""
        super().__init__()
        self.attention = nn.ModuleDict(
            {m: AdditiveAttention(hidden, values, config.attention) for m in config.modalities}
        )
        self.maps = nn.ModuleDict({m: Linear(values, context) for m in config.modalities})
        self.recall = AdditiveAttention(hidden, hidden, config.attention)
        self.recall_map = nn.Linear(hidden, context)
        self.fusion = HierarchicalFusion(hidden, context, config.attention)
        self.cell = AheadLSTMCell(config.embedding, context + beside, hidden)
        self.history = config.history

    def see(self, encoded: Mapping[str, Tensor], masks: dict[str, Tensor]) -> Seen:
        """Attention's weights sum to one: mapping the steps, once, maps what is attended to."""
        return Seen(
            keys={m: self.attention[m].project(x) for m, x in encoded.items()},  # type: ignore[operator]
            values={m: self.maps[m](x) for m, x in encoded.items()},
            masks=masks,
        )

    def begin(self, start: HiddenState) -> LevelState:
        """h and c [B, R, H], of which h is the first that is remembered."""
        h, c = start
        room = 0, 0, 0, self.history - 1
        keys, values = (F.pad(part[:, :, None], room) for part in (self.recall.project(h), self.recall_map(h)))
        return LevelState(h, c, keys, values)

    def forward(
        self,
        seen: Seen,
        present: Tensor,
        past: History,
        state: HiddenState,
        ahead: Tensor,
        beside: Tensor | None = None,
    ) -> tuple[HiddenState, Attended]:
        """One word: ahead [B, R, 4H], beside [B, R, ...] → the next state, and what was attended to."""
        h, _ = state
        sources, weights = [], {}
        for m, keys in seen.keys.items():
            context, weights[m] = self.attention[m](h, keys, seen.values[m], seen.masks[m])
            sources.append(context)
        recalled, remembered = past.recall(self.recall, h)
        sources.append(recalled)
        stacked = torch.stack([x.to(sources[0].dtype) for x in sources], dim=2)  # [B, R, N + 1, C]
        beta = self.fusion(h, stacked, present)  # [B, R, N + 1]
        context = torch.tanh((beta[..., None].to(stacked.dtype) * stacked).sum(2))
        late = context if beside is None else torch.cat([context, beside.to(context.dtype)], dim=-1)
        h, c = self.cell(ahead, late, state)
        past.add(self.recall.project(h), self.recall_map(h))
        return (h, c), Attended(weights, beta, remembered)


@register(
    "haca",
    source="Wang et al., NAACL 2018",
    about="encoders and decoders at two levels, with a memory of words",
    fidelity="B",
)
class HACA(CaptionModel):
    Config = HACAConfig
    config: HACAConfig

    def __init__(self, config: HACAConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = Encoder(config)
        self.high = nn.ModuleDict({m: HighEncoder(config, m) for m in config.modalities})
        self.start = Start(replace(config, hidden=config.local_hidden))
        self.words = nn.Embedding(len(vocabulary), config.embedding)
        self.outer = Level(
            config, values=config.high_hidden, hidden=config.global_hidden, context=config.global_context
        )
        self.inner = Level(
            config,
            values=2 * config.hidden,
            hidden=config.local_hidden,
            context=config.local_context,
            beside=config.global_hidden,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = WordScores(config.local_hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> HACAMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        low = self.encoder(batch)
        high = {m: self.high[m](x, batch.masks[m]) for m, x in low.items()}
        present = [*batch.present.values(), torch.ones_like(next(iter(batch.present.values())))]
        return HACAMemory(
            low=self.inner.see(low, batch.masks),
            high=self.outer.see({m: x for m, (x, _) in high.items()}, {m: real for m, (_, real) in high.items()}),
            present=torch.stack(present, dim=1),
            start=self.start(category, next(iter(low.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: HACAMemory, rows: int) -> HACAState:
        h, c = for_rows(memory.start, rows)
        zeros = h.new_zeros(*h.shape[:2], self.config.global_hidden)
        kept = torch.ones(h.shape[:2], dtype=torch.long, device=h.device)
        return HACAState(self.outer.begin((zeros, zeros)), self.inner.begin((h, c)), kept)

    def decode(self, memory: HACAMemory, words: Tensor, state: HACAState) -> Decoded:
        hidden, state, _ = self._roll(memory, words, state)
        return Decoded(self.output(hidden), state, hidden)

    def look(self, memory: HACAMemory, words: Tensor) -> Explanation:
        """Moments are those of the local decoder; of both, how much a word watched, listened and remembered, and what.

        Besides, the chunks that the global decoder attends to.
        """
        *_, looked = self._roll(memory, words, self.begin(memory, words.shape[1]))
        modalities = list(memory.low.keys)
        choices, matrices = {}, {}
        for level, name in enumerate(LEVELS):
            beta = torch.stack([each[level].shares for each in looked], dim=2)  # [B, R, L, N + 1]
            choices[f"watch, listen, remember: {name}"] = dict(
                zip([*modalities, REMEMBER], beta.unbind(-1), strict=True)
            )
            weights = over_words([each[level].recalled for each in looked], self.config.history)
            matrices[f"words remembered {name}"] = Matrix(
                weights, Words(), Words(before=True), "α of each word", "rows"
            )
        for m in modalities:
            weights = torch.stack([outer.weights[m] for outer, _ in looked], dim=2)  # [B, R, L, J]
            chunks = Steps(m, memory.low.keys[m].shape[1], self.config.chunk[m])
            matrices[f"chunks of {m} {LEVELS[0]}"] = Matrix(weights, Words(), chunks, "α of each word", "rows")
        return Explanation(
            attention={m: torch.stack([inner.weights[m] for _, inner in looked], dim=2) for m in modalities},
            shares={m: choices[f"watch, listen, remember: {LEVELS[1]}"][m] for m in modalities},
            choices=choices,
            matrices=matrices,
        )

    def _roll(
        self, memory: HACAMemory, words: Tensor, state: HACAState
    ) -> tuple[Tensor, HACAState, list[tuple[Attended, Attended]]]:
        """words [B, R, L] → h^L [B, R, L, H] with dropout, the state after the last, what both levels attended to."""
        embedded = self.dropout(self.words(words))  # [B, R, L, E]
        outer, inner = ((level.h, level.c) for level in (state.outer, state.inner))
        long, short = History(state.outer, state.kept), History(state.inner, state.kept)
        outputs, looked = [], []
        ahead = (level.cell.ahead(embedded).unbind(2) for level in (self.outer, self.inner))
        for of_outer, of_inner in zip(*ahead, strict=True):
            outer, above = self.outer(memory.high, memory.present, long, outer, of_outer)
            inner, below = self.inner(memory.low, memory.present, short, inner, of_inner, outer[0])
            outputs.append(inner[0])
            looked.append((above, below))
        hidden = self.dropout(torch.stack(outputs, dim=2))  # [B, R, L, H]
        return hidden, HACAState(long.state(*outer), short.state(*inner), state.kept + words.shape[2]), looked
