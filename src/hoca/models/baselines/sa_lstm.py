"""SA-LSTM: soft attention over time whose context feeds the decoder (Yao et al., 2015), the field's usual baseline.

feed: input    φ_t = Att(h_{t-1}, V), h_t = LSTM(h_{t-1}, [y_t; φ_t]), words are scored from h_t alone
feed: output   h_t = LSTM(h_{t-1}, y_t), φ_t = Att(h_t, V), words are scored from h_t and φ_t: unary HOCA (eq. 1-6)

Each modality has an attention of its own; their contexts are fused as the paper's are. Without an encoder, as the
decoder was published for RecNet (Wang et al., CVPR 2018), attention looks at the features themselves; their contexts
have widths of their own and stand side by side in the LSTM's input, which is the sum of what it makes of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.models import interface
from hoca.models.config import SIZE, ModelConfig
from hoca.models.interface import CaptionModel, Decoded, Explanation
from hoca.models.parts.attention import AdditiveAttention
from hoca.models.parts.encoder import encoder
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.fusion import fusion
from hoca.models.parts.output import Output
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.options import option
from hoca.text import Vocabulary


@dataclass(frozen=True)
class SALSTMConfig(ModelConfig):
    encoder: Literal["bilstm", "none"] = option("bilstm", "encoder of each modality; none = the features as they are")
    feed: Literal["input", "output"] = option(
        "input", "where the context enters: the LSTM's input, or the output layer"
    )
    fusion: Literal["hierarchical", "sum"] = option("sum", "how modalities are fused: eq. 20-23 or eq. 6")
    attention: int = option(512, "D, width of the attention", least=1, below=SIZE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder == "none" and (self.feed, self.fusion) != ("input", "sum"):
            raise UserError(
                f"encoder=none with feed={self.feed} and fusion={self.fusion}: features of different widths need "
                f"feed=input and fusion=sum"
            )


@dataclass(frozen=True)
class SALSTMMemory(interface.Memory):
    encoded: dict[str, Tensor]  # [B, T_m, C_m]
    keys: dict[str, Tensor]  # [B, T_m, D]
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real
    present: dict[str, Tensor]  # [B] bool
    start: HiddenState  # each [B, H]


class Attended(NamedTuple):
    contexts: dict[str, Tensor]  # [B, Q, C_m], weighted with β
    weights: dict[str, Tensor]  # α, [B, Q, T_m]
    shares: dict[str, Tensor]  # β, [B, Q]


@register("sa-lstm", source="Yao et al., ICCV 2015", about="soft attention whose context feeds the LSTM", fidelity="B")
class SALSTM(CaptionModel):
    Config = SALSTMConfig
    config: SALSTMConfig

    def __init__(self, config: SALSTMConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = encoder(config, config.encoder)
        widths, context = self.encoder.widths, 2 * config.hidden
        fed = {"output": 0, "input": context if config.encoder == "bilstm" else sum(widths.values())}
        self.start = Start(config)
        self.words = nn.Embedding(len(vocabulary), config.embedding)
        self.cell = nn.LSTMCell(config.embedding + fed[config.feed], config.hidden)
        self.attention = nn.ModuleDict(
            {m: AdditiveAttention(config.hidden, width, config.attention) for m, width in widths.items()}
        )
        self.fusion = fusion(config.fusion, hidden=config.hidden, context=context, attention=config.attention)
        self.dropout = nn.Dropout(config.dropout)
        if config.feed == "output":
            self.output: nn.Module = Output(config, len(vocabulary))
        else:
            self.output = nn.Linear(config.hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> SALSTMMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        encoded = self.encoder(batch)
        return SALSTMMemory(
            encoded=encoded,
            keys={m: self.attention[m].project(x) for m, x in encoded.items()},  # type: ignore[operator]
            masks=batch.masks,
            present=batch.present,
            start=self.start(category, next(iter(encoded.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: SALSTMMemory, rows: int) -> HiddenState:
        return for_rows(memory.start, rows)

    def decode(self, memory: SALSTMMemory, words: Tensor, state: HiddenState) -> Decoded:
        hidden, state, attended = self._roll(memory, words, state)
        if self.config.feed == "input":
            return Decoded(self.output(hidden), state, hidden)
        logits = self.output(hidden.flatten(1, 2), attended.contexts, self.words.weight)  # [B, R·L, V]
        return Decoded(logits.unflatten(1, words.shape[1:]), state, hidden)

    def look(self, memory: SALSTMMemory, words: Tensor) -> Explanation:
        *_, attended = self._roll(memory, words, self.begin(memory, words.shape[1]))
        captions = words.shape[1:]
        return Explanation(
            attention={m: a.unflatten(1, captions) for m, a in attended.weights.items()},
            shares={m: b.unflatten(1, captions) for m, b in attended.shares.items()},
        )

    def _roll(self, memory: SALSTMMemory, words: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState, Attended]:
        """words [B, R, L] → h [B, R, L, H] with dropout, the state after the last, and what each word attended to."""
        embedded = self.dropout(self.words(words))  # [B, R, L, E]
        h, c = (part.flatten(0, 1) for part in state)  # [B·R, H]
        rows = words.shape[:2]
        outputs, looked = [], []
        for step in embedded.unbind(2):  # [B, R, E]
            given = step
            if self.config.feed == "input":
                looked.append(self._attend(memory, h.unflatten(0, rows)))
                given = torch.cat([step, self._fed(looked[-1].contexts).to(step.dtype)], dim=-1)
            h, c = self.cell(given.flatten(0, 1), (h, c))
            outputs.append(h.unflatten(0, rows))
        hidden = self.dropout(torch.stack(outputs, dim=2))  # [B, R, L, H]
        if self.config.feed == "output":
            attended = self._attend(memory, hidden.flatten(1, 2))
        else:
            # Per word [B, R, ...] → all words, [B, R·L, ...].
            attended = Attended(
                *(
                    {
                        m: torch.stack([getattr(each, part)[m] for each in looked], dim=2).flatten(1, 2)
                        for m in memory.encoded
                    }
                    for part in Attended._fields
                )
            )
        return hidden, (h.unflatten(0, rows), c.unflatten(0, rows)), attended

    def _fed(self, contexts: Mapping[str, Tensor]) -> Tensor:
        """contexts[m] [B, R, C_m] → what the LSTM reads of them: their sum, or all of them side by side."""
        if self.config.encoder == "bilstm":
            return reduce(torch.add, contexts.values())
        like = next(iter(contexts.values()))
        zeros = (like.new_zeros(*like.shape[:2], width) for width in self.encoder.widths.values())
        return torch.cat([contexts.get(m, zero) for m, zero in zip(self.encoder.widths, zeros, strict=True)], dim=-1)

    def _attend(self, memory: SALSTMMemory, queries: Tensor) -> Attended:
        """queries [B, Q, H] → what they attend to."""
        contexts, weights = {}, {}
        for m, values in memory.encoded.items():
            contexts[m], weights[m] = self.attention[m](queries, memory.keys[m], values, memory.masks[m])
        present = torch.stack(list(memory.present.values()), dim=1)  # [B, N]
        if self.config.encoder == "bilstm":
            stacked = torch.stack(list(contexts.values()), dim=2)  # [B, Q, N, 2H]
            beta = self.fusion(queries, stacked, present)  # [B, Q, N]
        else:  # a sum, of widths that cannot be stacked
            beta = present[:, None].to(queries.dtype).expand(-1, queries.shape[1], -1)
        shares = dict(zip(contexts, beta.unbind(-1), strict=True))
        return Attended({m: shares[m][..., None] * x for m, x in contexts.items()}, weights, shares)
