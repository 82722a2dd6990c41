"""A decoder that attends to its own states of the words before: a ring of so many of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hoca import ops
from hoca.models.parts.attention import AdditiveAttention


class LevelState(NamedTuple):
    """Of one decoder. Its history is a ring: the state of word n lies at place n modulo its size."""

    h: Tensor  # [B, R, H]
    c: Tensor  # [B, R, H]
    keys: Tensor  # [B, R, T, D], of the states so far
    values: Tensor  # [B, R, T, C]


class History:
    """The history of one decoder during a call: what it was given, and the states of the words since."""

    def __init__(self, state: LevelState, kept: Tensor) -> None:
        self.size, self.kept = state.keys.shape[2], kept
        places = torch.arange(self.size, device=kept.device)
        self.age = (places - kept[..., None]) % self.size  # [B, R, T]: how many words later a place is written again
        self.filled = places < kept[..., None]
        # What lies in a place that was never filled must reach neither a value nor a gradient.
        self.given = LevelState(
            state.h, state.c, *(x.masked_fill(~self.filled[..., None], 0.0) for x in (state.keys, state.values))
        )
        self.keys: list[Tensor] = []  # [B, R, D] each
        self.values: list[Tensor] = []

    def add(self, key: Tensor, value: Tensor) -> None:
        self.keys.append(key)
        self.values.append(value)

    def recall(self, attention: AdditiveAttention, h: Tensor) -> tuple[Tensor, Tensor]:
        """h [B, R, H] → what it remembers, [B, R, C], and the weights of the states [B, R, T + n]."""
        query = attention.query(h).flatten(0, 1)[:, None]  # [B·R, 1, D]
        old = (self.filled & (self.age >= len(self.keys))).flatten(0, 1)  # [B·R, T]
        parts: list[tuple[Tensor, Tensor, Tensor | None]]
        parts = [(self.given.keys.flatten(0, 1), self.given.values.flatten(0, 1), old)]
        if self.keys:
            keys, values = (torch.stack(x[-self.size :], dim=2).flatten(0, 1) for x in (self.keys, self.values))
            parts.append((keys, values, None))
        scores = [
            ops.unary_scores(query, keys.to(query.dtype), attention.channel, mask, backend=attention.backend)
            for keys, _, mask in parts
        ]
        weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1)  # [B·R, 1, T + n]
        split = weights.split([x.shape[-1] for x in scores], dim=-1)
        context = sum(
            (alpha.to(values.dtype) @ values for alpha, (_, values, _) in zip(split, parts, strict=True)),
            start=torch.zeros((), device=h.device, dtype=parts[0][1].dtype),
        )
        rows = h.shape[:2]
        return context[:, 0].unflatten(0, rows), weights[:, 0].unflatten(0, rows)

    def state(self, h: Tensor, c: Tensor) -> LevelState:
        """The state after the words of this call, their own states in the history."""
        words = len(self.keys)
        newest = torch.arange(max(0, words - self.size), words, device=h.device)
        places = ((self.kept[..., None] + newest) % self.size)[..., None]  # [B, R, L, 1]
        made = []
        for old, new in ((self.given.keys, self.keys), (self.given.values, self.values)):
            values = torch.stack(new[-self.size :], dim=2).to(old.dtype)  # [B, R, L, ...]
            made.append(old.scatter(2, places.expand_as(values), values))
        return LevelState(h, c, *made)


def over_words(recalled: list[Tensor], size: int) -> Tensor:
    """Weights [B, R, size + n] of each of L words from the beginning on → [B, R, L, L], over what is before each word.

    Of the states given, only that before the first word exists; of those since, the last `size` are remembered.
    """
    words = len(recalled)
    found = recalled[0].new_zeros(*recalled[0].shape[:2], words, words)
    for word, weights in enumerate(recalled):
        found[:, :, word, 0] = weights[..., 0]
        since = weights[..., size:]
        found[:, :, word, word + 1 - since.shape[-1] : word + 1] += since
    return found
