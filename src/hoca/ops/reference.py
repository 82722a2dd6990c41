"""The paper's equations word for word: the order-n tensor is formed. Read it, test against it, don't train with it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

STEPS = "pqrstuvwxyz"  # einsum letters for the time steps of the modalities; b, l, d, k have their usual meaning


def unary_scores(query: Tensor, key: Tensor, channel: Tensor, mask: Tensor | None) -> Tensor:
    return _pad(features(query, key, mask) @ channel, mask)  # eq. 3


def exact_scores(
    queries: Sequence[Tensor], keys: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Tensor | None]
) -> list[Tensor]:
    mapped = [real(features(q, k, mask), mask) for q, k, mask in zip(queries, keys, masks, strict=True)]
    tensor = correlation(mapped)  # C_n
    return [_pad(weighted_sum(tensor, weights[l], l), masks[l]) for l in range(len(keys))]


def low_rank_scores(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    factors: Sequence[Tensor],
    channels: Sequence[Tensor],
    masks: Sequence[Tensor | None],
) -> list[Tensor]:
    mapped = [real(features(q, k, mask), mask) for q, k, mask in zip(queries, keys, masks, strict=True)]
    scores = []
    for l, channel in enumerate(channels):
        weighted = [x * channel if i == l else x for i, x in enumerate(mapped)]  # w_{I_l} in place of 1_d (eq. 17)
        weight = recover([f for i, f in enumerate(factors) if i != l], rank=factors[l].shape[0])
        scores.append(_pad(weighted_sum(correlation(weighted), weight, l), masks[l]))
    return scores


def features(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """The modality in the common space, seen by each word: tanh(W h + b + U I), [B, L, T, D]."""
    if mask is not None:
        key = key.masked_fill(~mask[:, :, None], 0.0)  # a NaN in the padding would reach the query's gradient
    return torch.tanh(query[:, :, None] + key[:, None])


def correlation(mapped: Sequence[Tensor]) -> Tensor:
    """eq. 7-8: C_n [B, L, T_1, ..., T_n], each entry the inner product of one step of every modality."""
    letters = STEPS[: len(mapped)]
    return torch.einsum(",".join(f"bl{t}d" for t in letters) + f"->bl{letters}", *mapped)


def recover(factors: Sequence[Tensor], rank: int) -> Tensor:
    """eq. 11: the weight tensor that K rank-1 tensors span. factors[i] [K, T_i]; of no factor, the empty product."""
    if not factors:
        return torch.tensor(float(rank))
    letters = STEPS[: len(factors)]
    return torch.einsum(",".join(f"k{t}" for t in letters) + f"->{letters}", *factors)


def weighted_sum(tensor: Tensor, weight: Tensor, l: int) -> Tensor:
    """eq. 9: Σ [W ∘ (C_n)_{r_l}] for every step r_l of modality l, [B, L, T_l]."""
    tensor = tensor.movedim(2 + l, 2)  # [B, L, T_l, the other T]
    others = prod(tensor.shape[3:])
    return tensor.reshape(*tensor.shape[:3], others) @ weight.to(tensor).reshape(others)


def real(mapped: Tensor, mask: Tensor | None) -> Tensor:
    """Zero at padded steps: they take part in no sum."""
    return mapped if mask is None else mapped.masked_fill(~mask[:, None, :, None], 0.0)


def _pad(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask[:, None], float("-inf"))
