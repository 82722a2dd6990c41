"""One group, one pass: the kernels as one differentiable function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from triton import cdiv

from hoca.ops.fused.kernels import backward_kernel, forward_kernel

MOST_ROWS = 512  # more steps than these in one group do not fit the registers of a multiprocessor
MOST_RANK = 4


@dataclass(frozen=True)
class Tile:
    """How a kernel divides its work: fixed by the number of rows, so that no shape is tuned or compiled anew."""

    tiles: int  # of each modality
    rows: int
    lanes: int
    words: int
    warps: int

    def sizes(self) -> dict[str, int]:
        """By the kernels' names."""
        sizes = {"TILES": self.tiles, "ROWS": self.rows, "LANES": self.lanes, "WORDS": self.words}
        return sizes | {"num_warps": self.warps}


def fits(steps: Sequence[int], rank: int) -> bool:
    return 0 < sum(steps) <= MOST_ROWS and rank <= MOST_RANK


def group_scores(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    factors: Sequence[Tensor],
    channels: Sequence[Tensor],
    masks: Sequence[Tensor | None],
) -> list[Tensor]:
    """Scores of one group. Without factors, X meets the channels themselves: [D] (eq. 3), or [B, L, D] per word."""
    tensors = (*queries, *keys, *factors, *channels)
    return list(_Group.apply(len(queries), tuple(masks), *tensors))


class _Group(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, count: int, masks: tuple[Tensor | None, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        group = _Arguments.of(count, masks, tensors)
        dtype = torch.promote_types(group.queries[0].dtype, group.channels[0].dtype)
        shape = group.queries[0].shape[:2]
        scores = tuple(q.new_empty((*shape, t), dtype=dtype) for q, t in zip(group.queries, group.steps, strict=True))
        tile = _forward_tile(group)
        words = group.queries[0].shape[1]
        blocks = 1 if group.rank else cdiv(max(group.steps), tile.tiles * tile.rows)
        forward_kernel[(cdiv(words, tile.words), shape[0], blocks)](
            group.queries, group.keys, group.masks or group.queries, scores, group.factors, group.channels,
            *group.numbers(), **tile.sizes(),
        )  # fmt: skip
        ctx.save_for_backward(*(mask for mask in masks if mask is not None), *tensors)
        ctx.count, ctx.masked = count, tuple(mask is not None for mask in masks)
        return scores

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = list(ctx.saved_tensors)
        masks = tuple(saved.pop(0) if masked else None for masked in ctx.masked)
        group = _Arguments.of(ctx.count, masks, tuple(saved))
        tile = _backward_tile(group)
        batch, words, size = group.queries[0].shape
        blocks = cdiv(size, tile.lanes)
        query_gradients = tuple(torch.empty_like(q, memory_format=torch.contiguous_format) for q in group.queries)
        key_gradients = tuple(torch.empty_like(k, memory_format=torch.contiguous_format) for k in group.keys)
        parts = (batch, blocks, group.rank, sum(group.steps))
        factor_parts = group.queries[0].new_empty(parts, dtype=torch.float32)
        shape = (batch, words, size) if group.per_word else (batch, size)
        channel_parts = group.queries[0].new_empty((ctx.count, *shape), dtype=torch.float32).unbind(0)
        backward_kernel[(blocks, batch)](
            group.queries, group.keys, group.masks or group.queries, tuple(g.contiguous() for g in gradients),
            group.factors, group.channels, query_gradients, key_gradients, factor_parts, channel_parts,
            *group.numbers(), **tile.sizes(),
        )  # fmt: skip
        channel_gradients = channel_parts if group.per_word else [part.sum(0) for part in channel_parts]
        factor_gradients = factor_parts.sum((0, 1)).split(group.steps, dim=1) if group.rank else ()
        results = (*query_gradients, *key_gradients, *factor_gradients, *channel_gradients)
        return None, None, *(r.to(t.dtype) for r, t in zip(results, saved, strict=True))


@dataclass(frozen=True)
class _Arguments:
    queries: tuple[Tensor, ...]
    keys: tuple[Tensor, ...]
    factors: tuple[Tensor, ...]
    channels: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]

    @classmethod
    def of(cls, count: int, masks: Sequence[Tensor | None], tensors: Sequence[Tensor]) -> _Arguments:
        tensors = [t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous() for t in tensors]
        queries, keys, channels = tensors[:count], tensors[count : 2 * count], tensors[-count:]
        if any(mask is not None for mask in masks):
            masks = [
                torch.ones(k.shape[:2], dtype=torch.bool, device=k.device) if mask is None else mask.contiguous()
                for k, mask in zip(keys, masks, strict=True)
            ]
        return cls(
            tuple(queries),
            tuple(keys),
            tuple(tensors[2 * count : -count]),
            tuple(channels),
            tuple(mask for mask in masks if mask is not None),
        )

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(key.shape[1] for key in self.keys)

    @property
    def rank(self) -> int:
        return self.factors[0].shape[0] if self.factors else 0

    @property
    def per_word(self) -> bool:
        return self.channels[0].dim() == 3

    def numbers(self) -> tuple[Any, ...]:
        """Strides, sizes and what the kernels are specialised on, in their order."""
        return (
            tuple(q.stride(0) for q in self.queries),
            tuple(q.stride(1) for q in self.queries),
            tuple(k.stride(0) for k in self.keys),
            tuple(k.stride(1) for k in self.keys),
            tuple(mask.stride(0) for mask in self.masks) or tuple(0 for _ in self.keys),
            tuple(f.stride(0) for f in self.factors),
            self.steps,
            self.queries[0].shape[1],
            self.queries[0].shape[2],
            len(self.queries),
            self.rank,
            self.per_word,
            bool(self.masks),
            self.queries[0].is_cuda,
        )


def _forward_tile(group: _Arguments) -> Tile:
    if not group.rank:
        return Tile(tiles=1, rows=16, lanes=32, words=8, warps=8)
    rows = _rows(group)
    tiles = cdiv(max(group.steps), rows)
    return Tile(tiles, rows, lanes=8, words=2, warps=4 if len(group.keys) * tiles * rows <= 256 else 8)


def _backward_tile(group: _Arguments) -> Tile:
    rows = _rows(group)
    tiles = cdiv(max(group.steps), rows)
    if len(group.keys) == 1:
        return Tile(tiles, rows, lanes=8, words=1, warps=2)
    # A warp holds keys, X, gradients of keys and of each rank's factors: above this they leave its registers.
    held = len(group.keys) * tiles * rows * (3 + group.rank)
    return Tile(tiles, rows, lanes=4, words=1, warps=1 if held <= 1024 else 4)


def _rows(group: _Arguments) -> int:
    return 16 if max(group.steps) <= 128 else 64
