"""The attention mathematics: scores of each modality's time steps, before the softmax.

One public signature per kind of attention, several backends that agree in value and gradient:

- `reference` forms the order-n correlation tensor literally, as the paper writes it; for small sizes and for reading.
- `contracted` sums in the cheap order and never forms it (plain torch).
- `fused` computes the tanh where it is used and never writes it (Triton; on a GPU, or with TRITON_INTERPRET=1).
- `auto` takes the fastest that can run on the given tensors.

B videos, L words, N modalities, T_i time steps of modality i, D attention size, K rank.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from hoca.ops.contracted import workspace

BACKENDS = ("auto", "reference", "contracted", "fused")

__all__ = ["BACKENDS", "exact_scores", "has_triton", "low_rank_scores", "unary_scores", "workspace"]


def unary_scores(
    query: Tensor, key: Tensor, channel: Tensor, mask: Tensor | None = None, *, backend: str = "auto"
) -> Tensor:
    """Bahdanau attention of one modality (eq. 3): `channel · tanh(query + key)`.

    query [B, L, D] = W h + b; key [B, T, D] = U I; channel [D]; mask [B, T] bool, True = real.
    Returns scores [B, L, T]; padded steps are -inf.
    """
    _check_modality("query", query, "key", key, "mask", mask, like=query)
    _check_shape("channel", channel, (query.shape[2],))
    return _backend(backend, query).unary_scores(query, key, channel, mask)


def exact_scores(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    weights: Sequence[Tensor],
    masks: Sequence[Tensor | None] | None = None,
    *,
    backend: str = "auto",
) -> list[Tensor]:
    """HOCA over the modalities of one group (eq. 7-9): each entry of the correlation tensor has its own weight.

    queries[i] [B, L, D]; keys[i] [B, T_i, D]; weights[l] of shape (T_j for j != l); masks[i] [B, T_i] bool.
    Returns scores[l] [B, L, T_l]; padded steps are -inf.
    """
    masks = _check(queries, keys, masks)
    steps = [key.shape[1] for key in keys]
    _check_count("weights", weights, keys)
    for l, weight in enumerate(weights):
        _check_shape(f"weights[{l}]", weight, tuple(steps[:l] + steps[l + 1 :]))
    return _backend(backend, queries[0]).exact_scores(queries, keys, weights, masks)


def low_rank_scores(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    factors: Sequence[Tensor],
    channels: Sequence[Tensor],
    masks: Sequence[Tensor | None] | None = None,
    *,
    backend: str = "auto",
) -> list[Tensor]:
    """Low-Rank HOCA over the modalities of one group (eq. 14-17): the weights are a sum of K rank-1 tensors.

    queries[i] [B, L, D]; keys[i] [B, T_i, D]; factors[i] [K, T_i]; channels[i] [D]; masks[i] [B, T_i] bool.
    Returns scores[l] [B, L, T_l]; padded steps are -inf.
    """
    masks = _check(queries, keys, masks)
    _check_count("factors", factors, keys)
    _check_count("channels", channels, keys)
    _check_dimensions("factors[0]", factors[0], "[K, T_i]")
    for i, (factor, channel, key) in enumerate(zip(factors, channels, keys, strict=True)):
        _check_shape(f"factors[{i}]", factor, (factors[0].shape[0], key.shape[1]))
        _check_shape(f"channels[{i}]", channel, (key.shape[2],))
    return _backend(backend, queries[0]).low_rank_scores(queries, keys, factors, channels, masks)


def _backend(name: str, query: Tensor) -> ModuleType:
    if name not in BACKENDS:
        raise ValueError(f"backend {name!r} is unknown: choose one of {', '.join(BACKENDS)}")
    if name == "auto":
        name = "fused" if query.is_cuda and has_triton() else "contracted"
    try:
        return importlib.import_module(f"hoca.ops.{name}")
    except ModuleNotFoundError as error:
        raise ValueError(f"backend {name!r} is not available here ({error}): use backend='auto'") from error


@cache
def has_triton() -> bool:
    """Whether kernels can be compiled here; they run on a GPU."""
    return importlib.util.find_spec("triton") is not None


def _check(
    queries: Sequence[Tensor], keys: Sequence[Tensor], masks: Sequence[Tensor | None] | None
) -> Sequence[Tensor | None]:
    masks = [None] * len(keys) if masks is None else masks
    if not keys:
        raise ValueError("attention needs at least one modality: queries and keys are empty")
    _check_count("queries", queries, keys)
    _check_count("masks", masks, keys)
    for i, (query, key, mask) in enumerate(zip(queries, keys, masks, strict=True)):
        _check_modality(f"queries[{i}]", query, f"keys[{i}]", key, f"masks[{i}]", mask, like=queries[0])
    return masks


def _check_modality(
    query_name: str, query: Tensor, key_name: str, key: Tensor, mask_name: str, mask: Tensor | None, *, like: Tensor
) -> None:
    _check_dimensions(query_name, query, "[B, L, D]")
    _check_dimensions(key_name, key, "[B, T, D]")
    _check_shape(query_name, query, tuple(like.shape))
    _check_shape(key_name, key, (query.shape[0], key.shape[1], query.shape[2]))
    if mask is not None:
        _check_shape(mask_name, mask, tuple(key.shape[:2]))
        if mask.dtype != torch.bool:
            raise ValueError(f"{mask_name} has dtype {mask.dtype}, expected torch.bool (True = real)")


def _check_count(name: str, tensors: Sequence[object], keys: Sequence[Tensor]) -> None:
    if len(tensors) != len(keys):
        raise ValueError(f"{name} has {len(tensors)} entries for {len(keys)} modalities: give one per modality")


def _check_dimensions(name: str, tensor: Tensor, letters: str) -> None:
    if tensor.dim() != len(letters.split(",")):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {letters}")


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
