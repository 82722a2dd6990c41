"""The Triton backend: the tanh tensor [B, L, T, D] is computed where it is used, twice, and never written.

Sums in float32 whatever the type of its arguments; scores have the type that queries and parameters promote to.
Runs on a GPU, or anywhere with TRITON_INTERPRET=1. What does not fit the kernels is left to `contracted`: float64,
more than 512 steps in one group, a rank above 4, exact attention of order 4 and above or of more than 128 steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from hoca.ops import contracted
from hoca.ops.fused.group import fits, group_scores
from hoca.ops.fused.ternary import MOST_STEPS, pair_vectors


def unary_scores(query: Tensor, key: Tensor, channel: Tensor, mask: Tensor | None) -> Tensor:
    if not _runs([query, key, channel]) or not fits([key.shape[1]], 0):
        return contracted.unary_scores(query, key, channel.to(query.dtype), mask)
    return group_scores([query], [key], [], [channel], [mask])[0]


def low_rank_scores(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    factors: Sequence[Tensor],
    channels: Sequence[Tensor],
    masks: Sequence[Tensor | None],
) -> list[Tensor]:
    rank = factors[0].shape[0]
    if len(keys) == 1:  # the empty product is 1, K times over
        return [unary_scores(queries[0], keys[0], rank * channels[0], masks[0])]
    if not _runs([*queries, *keys, *factors, *channels]) or not fits([k.shape[1] for k in keys], rank):
        factors, channels = _like(queries[0], factors), _like(queries[0], channels)
        return contracted.low_rank_scores(queries, keys, factors, channels, masks)
    return group_scores(queries, keys, factors, channels, masks)


def exact_scores(
    queries: Sequence[Tensor], keys: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Tensor | None]
) -> list[Tensor]:
    if len(keys) == 1:
        return [unary_scores(queries[0], keys[0], weights[0].expand(keys[0].shape[2]), masks[0])]
    if len(keys) == 2:  # one weight per step of the other modality: rank 1, all channels alike
        ones = torch.ones(keys[0].shape[2], dtype=weights[0].dtype, device=weights[0].device)
        factors = [weights[1][None], weights[0][None]]
        return low_rank_scores(queries, keys, factors, [ones, ones], masks)
    if len(keys) == 3 and _runs([*queries, *keys, *weights]) and max(k.shape[1] for k in keys) <= MOST_STEPS:
        return _ternary_scores(queries, keys, weights, masks)
    return contracted.exact_scores(queries, keys, _like(queries[0], weights), masks)


def _ternary_scores(
    queries: Sequence[Tensor], keys: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Tensor | None]
) -> list[Tensor]:
    given = (
        []
        if all(m is None for m in masks)
        else [
            m if m is not None else torch.ones(k.shape[:2], dtype=torch.bool, device=k.device)
            for m, k in zip(masks, keys, strict=True)
        ]
    )
    return group_scores(queries, keys, [], pair_vectors(queries, keys, weights, given), masks)


def _like(query: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Parameters in the type of the activations, as autocast would have them."""
    return [parameter.to(query.dtype) for parameter in parameters]


def _runs(tensors: Sequence[Tensor]) -> bool:
    """Whether the kernels compute this: a GPU or the interpreter, no float64, nothing empty."""
    if not (tensors[0].is_cuda or triton.knobs.runtime.interpret):
        raise ValueError("backend 'fused' needs tensors on a GPU (or TRITON_INTERPRET=1): use backend='auto'")
    return all(t.dtype != torch.float64 and t.numel() > 0 for t in tensors)
