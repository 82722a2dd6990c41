"""The paper's captioner: encode a video once, then score the words of any number of captions of it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.config import Group
from hoca.models.hoca.attention import CrossModalAttention
from hoca.models.hoca.config import HocaConfig
from hoca.models.hoca.decoder import Decoder
from hoca.models.hoca.merging import Merge
from hoca.models.interface import CaptionModel, Decoded, Explanation
from hoca.models.parts.encoder import Encoder
from hoca.models.parts.features import FeatureBatch, step_mask
from hoca.models.parts.fusion import fusion
from hoca.models.parts.output import Output
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.ops.copies import Copies
from hoca.ops.linear import linear_layers
from hoca.ops.streams import ParallelStreams
from hoca.text import Vocabulary


@dataclass(frozen=True)
class HocaMemory(interface.Memory):
    encoded: dict[str, Tensor]  # [B, T_m, 2H]
    keys: dict[str, Tensor]  # [B, T_m, slots, D]
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real
    present: dict[str, Tensor]  # [B] bool
    counts: dict[str, Tensor]  # [B, groups of m] bool: those of a video whose members are all there
    ragged: frozenset[str]  # the modalities whose masks have a False
    start: HiddenState  # each [B, H]


class Captioner(CaptionModel):
    """The context of a word never re-enters the recurrence (eq. 1), so one call decodes all words of all captions."""

    Config = HocaConfig
    config: HocaConfig

    def __init__(self, config: HocaConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = Encoder(config)
        self.start = Start(config)
        self.decoder = Decoder(config, len(vocabulary))
        self.attention = CrossModalAttention(config)
        self.merge = Merge(config)
        self.fusion = fusion(config.fusion, hidden=config.hidden, context=2 * config.hidden, attention=config.attention)
        self.output = Output(config, len(vocabulary), tie_words=config.tie_words)

    @property
    def embedding(self) -> nn.Embedding:
        return self.decoder.embedding

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> HocaMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        encoded = self.encoder(batch)
        return HocaMemory(
            encoded=encoded,
            keys=self.attention.project(encoded),
            masks=batch.masks,
            present=batch.present,
            counts=self.merge.counts(batch.present),
            ragged=batch.ragged,
            start=self.start(category, next(iter(encoded.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: HocaMemory, rows: int) -> HiddenState:
        return for_rows(memory.start, rows)

    def decode(self, memory: HocaMemory, words: Tensor, state: HiddenState) -> Decoded:
        hidden, state = self.decoder(words, state)
        logits = self._predict(memory, hidden.flatten(1, 2)).unflatten(1, words.shape[1:])
        return Decoded(logits, state, hidden)

    def forward_at(
        self,
        features: Mapping[str, Tensor],
        lengths: Mapping[str, Tensor],
        ragged: frozenset[str],
        words: Tensor,
        places: Tensor,
        category: Tensor | None = None,
    ) -> Tensor:
        """As `ScoresPlaces` says; the encoders and the decoder run side by side."""
        streams = ParallelStreams(words.device)
        masks = {m: step_mask(lengths[m], x.shape[1], x.device) for m, x in features.items()}
        encoded: dict[str, Tensor] = {}
        keys: dict[str, Tensor] = {}
        with Copies(words.device) as copies:
            for modality, x in features.items():
                with streams.next():
                    copies.make(*([layer] for layer in self.attention.key_layers(modality)))
                    encoded[modality] = self.encoder.encode_masked(
                        modality, x, masks[modality] if modality in ragged else None
                    )
                    keys |= self.attention.project({modality: encoded[modality]})
            copies.make(self.attention.query_layers(keys), *([layer] for layer in linear_layers(self.fusion)))
            self.output.copy(copies)
            start = self.start(category, next(iter(features.values())))
            hidden, _ = self.decoder(words, for_rows(start, words.shape[1]))
            queries = hidden.flatten(1, 2)  # [B, R·L, H]
            queries = queries.gather(1, places[..., None].expand(-1, -1, queries.shape[2]))  # [B, Q, H]
            streams.join([*encoded.values(), *keys.values()])
            present = {m: mask[:, 0] for m, mask in masks.items()}
            counts = self.merge.counts(present) if ragged else {}
            return self._predict(HocaMemory(encoded, keys, masks, present, counts, ragged, start), queries)

    def look(self, memory: HocaMemory, words: Tensor) -> Explanation:
        captions = words.shape[1:]
        hidden, _ = self.decoder(words, self.begin(memory, words.shape[1]))
        _, shares, merged, scores = self._attend(memory, hidden.flatten(1, 2))
        groups = {m: self.merge.of_groups(of, memory.masks[m], memory.counts[m]) for m, of in scores.items()}
        return Explanation(
            attention={m: a.unflatten(1, captions) for m, a in merged.items()},
            shares={m: b.unflatten(1, captions) for m, b in shares.items()},
            groups={m: {g: a.unflatten(1, captions) for g, a in of.items()} for m, of in groups.items()},
            theta={m: self.merge.theta_of(m) for m in groups},
        )

    def describe(self) -> str:
        orders = self.config.orders
        if orders == (1,):
            return "attention of order 1"
        rank = f", rank {self.config.rank}" if self.config.form == "low-rank" else ""
        plural = "orders" if len(orders) > 1 else "order"
        return f"{self.config.form} attention of {plural} {', '.join(map(str, orders))}{rank}"

    def _predict(self, memory: HocaMemory, queries: Tensor) -> Tensor:
        """queries [B, Q, H] → logits [B, Q, V]."""
        contexts, shares, merged, _ = self._attend(memory, queries)
        attended = {m: (alpha, memory.encoded[m]) for m, alpha in merged.items()}
        return self.output(queries, contexts, self.decoder.embedding.weight, shares, attended)

    def _attend(
        self, memory: HocaMemory, queries: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor], dict[str, dict[Group, Tensor]]]:
        """queries [B, Q, H] → of every modality φ [B, Q, 2H], β [B, Q], α [B, Q, T], and the scores of its groups."""
        masks = {m: mask if m in memory.ragged else None for m, mask in memory.masks.items()}
        scores = self.attention(queries, memory.keys, masks)
        contexts, merged = {}, {}
        streams = ParallelStreams(queries.device, captured=True)
        for modality, encoded in memory.encoded.items():
            mask = memory.masks[modality]
            with streams.next():
                counts = memory.counts[modality] if memory.ragged else None
                alpha = self.merge(modality, scores[modality], mask, counts, encoded.dtype)
                merged[modality] = alpha.expand(-1, queries.shape[1], -1)
                contexts[modality] = merged[modality].to(encoded.dtype) @ encoded  # eq. 5
        streams.join(contexts.values())
        stacked = torch.stack(list(contexts.values()), dim=2)  # [B, Q, N, 2H]
        present = torch.stack(list(memory.present.values()), dim=1)  # [B, N]
        beta = self.fusion(queries, stacked, present)  # [B, Q, N]
        return contexts, dict(zip(contexts, beta.unbind(-1), strict=True)), merged, scores


for _name, _form, _orders, _about in (
    ("hoca-u", "exact", (1,), "unary attention, each modality by itself"),
    ("hoca-b", "exact", (2,), "binary HOCA"),
    ("l-hoca-b", "low-rank", (2,), "binary Low-Rank HOCA"),
    ("hoca-t", "exact", (3,), "ternary HOCA"),
    ("l-hoca-t", "low-rank", (3,), "ternary Low-Rank HOCA"),
    ("hoca-ub", "exact", (1, 2), "unary and binary HOCA"),
    ("l-hoca-ub", "low-rank", (1, 2), "unary and binary Low-Rank HOCA"),
    ("hoca-ubt", "exact", (1, 2, 3), "unary, binary and ternary HOCA"),
    ("l-hoca-ubt", "low-rank", (1, 2, 3), "unary, binary and ternary Low-Rank HOCA"),
):
    register(_name, source="Jin et al., EMNLP 2019", about=_about, form=_form, orders=_orders)(Captioner)
