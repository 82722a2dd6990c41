"""The whole model: encode a video once, then score the words of any number of captions of it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hoca.data.vocabulary import Vocabulary
from hoca.errors import UserError, nearest
from hoca.models.attention import CrossModalAttention
from hoca.models.config import Config, Group
from hoca.models.decoder import Decoder, State
from hoca.models.detector import Detector
from hoca.models.encoder import Encoder, step_mask
from hoca.models.fusion import fusion
from hoca.models.lanes import Lanes
from hoca.models.merging import Merge
from hoca.models.output import Output
from hoca.models.start import Start


@dataclass(frozen=True)
class Memory:
    """What the decoder looks at: everything about the videos that no word changes."""

    encoded: dict[str, Tensor]  # [B, T_m, 2H]
    keys: dict[str, Tensor]  # [B, T_m, slots, D]
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real
    ragged: frozenset[str]  # the modalities whose masks have a False
    present: dict[str, Tensor]  # [B] bool
    start: State  # each [B, H]
    evidence: Tensor | None = None  # [B, V], of the words that are detected, where they are

    @property
    def videos(self) -> int:
        return self.start[0].shape[0]


@dataclass(frozen=True)
class Attention:
    """What each word looked at."""

    groups: dict[str, dict[Group, Tensor]]  # α_g per modality and group, [B, R, L, T_m]
    merged: dict[str, Tensor]  # α per modality, [B, R, L, T_m]
    modalities: dict[str, Tensor]  # β per modality, [B, R, L]


class Captioner(nn.Module):
    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.encoder = Encoder(config)
        self.start = Start(config)
        self.decoder = Decoder(config, len(vocabulary))
        self.attention = CrossModalAttention(config)
        self.merge = Merge(config)
        self.fusion = fusion(config)
        self.output = Output(config, len(vocabulary))
        self.detector = Detector(config, len(vocabulary)) if config.detects else None

    def forward(
        self,
        features: Mapping[str, Tensor],
        lengths: Mapping[str, Tensor],
        words: Tensor,
        category: Tensor | None = None,
    ) -> Tensor:
        """features[m] [B, T_m, D_m], lengths[m] [B], words [B, R, L] whose first is <bos> → logits [B, R, L, V].

        A length of 0 means missing. A modality may be left out: it is then missing for every video.
        `category` [B] is the number of the video's category, -1 = unknown.
        """
        return self.decode(self.encode(features, lengths, category), words)[0]

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> Memory:
        features, lengths = self._given(features, lengths)
        encoded = self.encoder(features, lengths)
        anchor = next(iter(encoded.values()))
        masks = {m: step_mask(lengths[m], x.shape[1], x.device) for m, x in encoded.items()}
        return Memory(
            encoded=encoded,
            keys=self.attention.project(encoded),
            masks=masks,
            ragged=frozenset(m for m, x in encoded.items() if bool((lengths[m] < x.shape[1]).any())),
            present={m: mask[:, 0] for m, mask in masks.items()},
            start=self.start(category, anchor),
            evidence=None if self.detector is None else self.detector(features, lengths),
        )

    def decode(self, memory: Memory, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """words [B, R, L] → logits [B, R, L, V] and the state [B, R, H] from which the next words go on."""
        hidden, state = self.decoder(words, self._state(memory.start, words) if state is None else state)
        return self._predict(memory, hidden.flatten(1, 2)).unflatten(1, words.shape[1:]), state

    def forward_at(
        self,
        features: Mapping[str, Tensor],
        lengths: Mapping[str, Tensor],
        ragged: frozenset[str],
        words: Tensor,
        places: Tensor,
        category: Tensor | None = None,
    ) -> Tensor:
        """`forward` at some places [B, Q] of each video's R·L words alone: logits [B, Q, V].

        No value is looked at on the host, so that a GPU can run this from a captured graph: lengths[m] [B] are where
        the model is, `ragged` names the modalities with lengths that may be shorter than their features, and every
        video has a modality. The encoders and the decoder run side by side.
        """
        lanes = Lanes(words.device)
        masks = {m: step_mask(lengths[m], x.shape[1], x.device) for m, x in features.items()}
        encoded: dict[str, Tensor] = {}
        keys: dict[str, Tensor] = {}
        for modality, x in features.items():
            with lanes.beside():
                encoded[modality] = self.encoder.encode_masked(
                    modality, x, masks[modality] if modality in ragged else None
                )
                keys |= self.attention.project({modality: encoded[modality]})
        start = self.start(category, next(iter(features.values())))
        hidden, _ = self.decoder(words, self._state(start, words))
        queries = hidden.flatten(1, 2)  # [B, R·L, H]
        queries = queries.gather(1, places[..., None].expand(-1, -1, queries.shape[2]))  # [B, Q, H]
        lanes.join([*encoded.values(), *keys.values()])
        present = {m: mask[:, 0] for m, mask in masks.items()}
        return self._predict(Memory(encoded, keys, masks, ragged, present, start), queries)

    def look(self, memory: Memory, words: Tensor) -> Attention:
        """What was attended to when predicting the word after each of `words` [B, R, L]."""
        hidden, _ = self.decoder(words, self._state(memory.start, words))
        _, shares, (groups, merged) = self._attend(memory, hidden.flatten(1, 2))
        captions = words.shape[1:]
        return Attention(
            groups={m: {g: a.unflatten(1, captions) for g, a in of.items()} for m, of in groups.items()},
            merged={m: a.unflatten(1, captions) for m, a in merged.items()},
            modalities={m: b.unflatten(1, captions) for m, b in shares.items()},
        )

    def _predict(self, memory: Memory, queries: Tensor) -> Tensor:
        """queries [B, Q, H] → logits [B, Q, V]."""
        contexts, shares, _ = self._attend(memory, queries)
        weighted = {m: share[..., None] * contexts[m] for m, share in shares.items()}
        return self.output(queries, weighted, self.decoder.embedding.weight)

    def _attend(
        self, memory: Memory, queries: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], tuple[dict[str, dict[Group, Tensor]], dict[str, Tensor]]]:
        """queries [B, Q, H] → contexts φ [B, Q, 2H], shares β [B, Q] and weights α [B, Q, T] of every modality."""
        masks = {m: mask if m in memory.ragged else None for m, mask in memory.masks.items()}
        scores = self.attention(queries, memory.keys, masks)
        contexts, merged, groups = {}, {}, {}
        lanes = Lanes(queries.device, captured=True)
        for modality, encoded in memory.encoded.items():
            mask = memory.masks[modality]
            with lanes.beside():
                alpha, groups[modality] = self.merge(
                    modality, scores[modality], mask, memory.present, encoded.dtype, complete=not memory.ragged
                )
                merged[modality] = alpha.expand(-1, queries.shape[1], -1)
                contexts[modality] = merged[modality].to(encoded.dtype) @ encoded  # eq. 5
        lanes.join(contexts.values())
        stacked = torch.stack(list(contexts.values()), dim=2)  # [B, Q, N, 2H]
        present = torch.stack(list(memory.present.values()), dim=1)  # [B, N]
        beta = self.fusion(queries, stacked, present)  # [B, Q, N]
        return contexts, dict(zip(contexts, beta.unbind(-1), strict=True)), (groups, merged)

    def _state(self, start: State, words: Tensor) -> State:
        h, c = (part[:, None].expand(-1, words.shape[1], -1) for part in start)
        return h, c

    def _given(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The modalities that some video has, in the model's order, without steps that are padding for every video."""
        for modality in [*features, *lengths]:
            if modality not in self.config.modalities:
                raise UserError(f"the model has no modality {modality!r}: {nearest(modality, self.config.modalities)}")
        kept_features, kept_lengths = {}, {}
        for modality in self.config.modalities:
            if modality in features:
                x = features[modality]
                length = lengths[modality].cpu() if modality in lengths else torch.full((len(x),), x.shape[1])
                longest = int(length.max())
                if longest > x.shape[1]:
                    raise UserError(f"lengths[{modality!r}] says {longest} steps, the features have {x.shape[1]}")
                if longest > 0:
                    kept_features[modality], kept_lengths[modality] = x[:, :longest], length
        if not kept_lengths:
            raise UserError("no video of the batch has any modality: at least one is needed")
        empty = torch.stack(list(kept_lengths.values())).sum(0) == 0
        if bool(empty.any()):
            raise UserError(f"video {int(empty.nonzero()[0])} of the batch has no modality: at least one is needed")
        return kept_features, kept_lengths
