"""Query and weighted contexts → the scores of the words (eq. 6, 22-23)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hoca.models.config import ModelConfig
from hoca.ops.attended import attended_scores, saves_work
from hoca.ops.copies import Copies, copy_of, kept
from hoca.ops.linear import linear
from hoca.ops.weighted import side_by_side

ALIGNMENT = 8  # of 16-bit numbers in 16 bytes


class Output(nn.Module):
    """W_p^h h + Σ_k β_k W_p^k φ_k + b_p as one matrix product over [h, β_k φ_k].

    Small models tie W_p to the words: a narrow layer, then products with the decoder's own word vectors.
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, *, tie_words: bool = False) -> None:
        super().__init__()
        self.modalities = tuple(config.modalities)
        self.width = 2 * config.hidden
        self.alignment = ALIGNMENT
        inputs = config.hidden + len(self.modalities) * self.width
        self.narrow = nn.Linear(inputs, config.embedding, bias=False) if tie_words else nn.Identity()
        self.linear = None if tie_words else nn.Linear(inputs, vocabulary_size)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size)) if tie_words else None

    def copy(self, copies: Copies) -> None:
        """Have W_p copied, so that there are V and a few words to score: rows that are -inf keep a GPU's alignment."""
        if self.linear is not None:
            copies.make([self.linear], alignment=self.alignment)

    def forward(
        self,
        hidden: Tensor,
        contexts: Mapping[str, Tensor],
        words: Tensor,
        shares: Mapping[str, Tensor] | None = None,
        attended: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> Tensor:
        """hidden [B, Q, H], contexts φ_m [B, Q, 2H], absent ones left out, shares β_m [B, Q] (None: 1 each)
        → logits [B, Q, V].

        words [V, E]: the decoder's word vectors, for scores that are tied to them. attended: what the contexts are made
        of, weights α_m [B, Q, T_m] and encoded steps [B, T_m, 2H].
        """
        if (scores := self._of_steps(hidden, shares or {}, attended or {})) is not None:
            return scores
        given, weighed = [contexts.get(m) for m in self.modalities], [(shares or {}).get(m) for m in self.modalities]
        narrow = self.narrow(side_by_side(hidden, given, weighed, self.width))
        if self.linear is not None:
            if copy_of([self.linear.weight]) is not None:
                return linear(narrow, self.linear.weight, self.linear.bias)
            if narrow.is_cuda:
                return _aligned(narrow, self.linear.weight, self.linear.bias, self.alignment)
            return self.linear(narrow)  # eq. 22-23
        assert self.bias is not None
        return _tied(narrow, words, self.bias, self.alignment)

    def _of_steps(
        self, hidden: Tensor, shares: Mapping[str, Tensor], attended: Mapping[str, tuple[Tensor, Tensor]]
    ) -> Tensor | None:
        """The same from the steps themselves, where weights are copied and that is less work."""
        if self.linear is None or set(attended) != set(self.modalities) or set(shares) != set(self.modalities):
            return None
        copy = copy_of([self.linear.weight])
        if copy is None or not saves_work(
            hidden.shape[1], [steps.shape[1] for _, steps in attended.values()], self.width
        ):
            return None
        weighed = [(shares[m][..., None] * attended[m][0], attended[m][1]) for m in self.modalities]
        return attended_scores(hidden, weighed, copy, self.linear.weight, self.linear.bias)


class WordScores(nn.Linear):
    """Hidden states [..., H] → logits [..., V]."""

    def forward(self, hidden: Tensor) -> Tensor:
        return _aligned(hidden, self.weight, self.bias, ALIGNMENT)


class TiedScores(nn.Module):
    """Hidden states [..., H] → logits [..., V], by products of a map of them with the decoder's own word vectors."""

    def __init__(self, hidden: int, embedding: int, vocabulary_size: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(hidden, embedding, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """words [V, E]: the vectors."""
        return _tied(self.narrow(hidden), words, self.bias, ALIGNMENT)


def word_bias(output: object) -> Tensor | None:
    """The bias of an output layer, [V]; None if it has none, or is no such layer."""
    layer = output.linear if isinstance(output, Output) and output.linear is not None else output
    bias = getattr(layer, "bias", None)
    return bias if isinstance(bias, Tensor) else None


def _tied(narrow: Tensor, words: Tensor, bias: Tensor, alignment: int) -> Tensor:
    """Products of narrow [..., E] with the words' vectors [V, E]. These are long: scaled, scores start small."""
    return _aligned(narrow * words.shape[1] ** -0.5, words, bias, alignment)


def _aligned(x: Tensor, weight: Tensor, bias: Tensor, alignment: int) -> Tensor:
    """x W' + b. On a GPU W gets rows of zeros up to an aligned number: unaligned, tensor cores are far slower."""
    words = weight.shape[0]
    more = -words % alignment if x.is_cuda else 0
    if not more:
        return linear(x, weight, bias)
    padded = (kept(partial(PadRows.apply, each, more, x.dtype), each, more, x.dtype) for each in (weight, bias))
    return linear(x, *padded)[..., :words]


class PadRows(torch.autograd.Function):
    """`F.pad` at the end, in another type: one copy, where padding makes one more, and a second one of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, more: int, dtype: torch.dtype) -> Tensor:
        rows = tensor.shape[0]
        ctx.rows, ctx.dtype = rows, tensor.dtype
        padded = tensor.new_empty((rows + more, *tensor.shape[1:]), dtype=dtype)
        padded[:rows] = tensor
        padded[rows:] = 0
        return padded

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][: ctx.rows].to(ctx.dtype), None, None
