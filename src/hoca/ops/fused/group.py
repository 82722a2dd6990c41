"""One group, one pass: the kernels as one differentiable function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from triton import cdiv

from hoca.ops.fused.kernels import backward_kernel, forward_kernel
from hoca.ops.fused.powers import make_powers

MOST_ROWS = 512  # more steps than these in one group do not fit the registers of a multiprocessor
MOST_RANK = 4
MOST_TILES = 5  # of a program, where it need not have them all


# By the number of modalities, for 80 steps of each, as `benchmarks/tune_attention.py` times them.
FORWARD: dict[int, dict[str, int]] = {
    1: {"lanes": 32, "words": 1, "warps": 2, "ahead": 1},
    2: {"lanes": 8, "words": 1, "warps": 1, "ahead": 0},
    3: {"lanes": 8, "words": 2, "warps": 2, "ahead": 0},
}
BACKWARD: dict[int, dict[str, int]] = {
    1: {"lanes": 16, "warps": 1, "ahead": 1},
    2: {"lanes": 4, "warps": 1, "ahead": 1},
    3: {"lanes": 4, "warps": 1, "ahead": 1},
}


@dataclass(frozen=True)
class Tile:
    """How a kernel divides its work: fixed by the group's sizes, so that no shape is tuned or compiled anew."""

    tiles: int  # of each modality
    rows: int
    lanes: int
    warps: int
    words: int = 1
    ahead: int = 0  # 1: load what comes next while working

    def sizes(self) -> dict[str, int]:
        """By the kernels' names."""
        sizes = {"TILES": self.tiles, "ROWS": self.rows, "LANES": self.lanes, "num_warps": self.warps}
        return sizes | {"AHEAD": bool(self.ahead)}


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
    return list(_Scores.apply(len(queries), tuple(masks), *tensors))


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, count: int, masks: tuple[Tensor | None, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        tensors = tuple(_packed(tensor) for tensor in tensors)
        queries, keys = tensors[:count], tensors[count : 2 * count]
        factors, channels = tensors[2 * count : -count], tensors[-count:]
        steps = tuple(key.shape[1] for key in keys)
        batch, words, _ = queries[0].shape
        dtype = torch.promote_types(queries[0].dtype, channels[0].dtype)
        scores = tuple(queries[0].new_empty((batch, words, t), dtype=dtype) for t in steps)
        tile = _forward_tile(steps, factors[0].shape[0] if factors else 0)
        masks = _all_or_none(masks, keys)
        blocks = cdiv(max(steps), tile.tiles * tile.rows)
        powers = make_powers(queries, keys, masks, blocks * tile.tiles * tile.rows)
        group = _Group(*powers, masks, factors, channels, steps, queries[0].shape[2])
        forward_kernel[(cdiv(words, tile.words), batch, blocks)](
            group.query_powers, group.key_powers, group.masks or channels, scores, factors, channels,
            *group.numbers(), WORDS=tile.words, **tile.sizes(),
        )  # fmt: skip
        ctx.save_for_backward(*group.tensors())
        ctx.steps, ctx.size, ctx.masked = steps, group.size, bool(masks)
        ctx.types = tuple(tensor.dtype for tensor in tensors)
        return scores

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        group = _Group.of(ctx.saved_tensors, ctx.steps, ctx.size, masked=ctx.masked)
        count, batch, words, _ = group.query_powers.shape
        tile = _backward_tile(group.steps, group.rank)
        blocks = cdiv(group.size, tile.lanes)

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return group.query_powers.new_empty(shape, dtype=dtype)

        query_gradients = tuple(empty(batch, words, group.size, dtype=dtype) for dtype in ctx.types[:count])
        key_gradients = tuple(
            empty(batch, t, group.size, dtype=dtype)
            for t, dtype in zip(group.steps, ctx.types[count : 2 * count], strict=True)
        )
        factor_parts = empty(batch, blocks, group.rank, sum(group.steps))
        channel_parts = empty(count, batch, *([words] if group.per_word else []), group.size).unbind(0)
        backward_kernel[(blocks, batch)](
            group.query_powers, group.key_powers, group.masks or group.channels,
            group.real_gradients(gradients), group.factors, group.channels,
            query_gradients, key_gradients, factor_parts, channel_parts,
            *group.numbers(), FULL=all(t == tile.tiles * tile.rows for t in group.steps), **tile.sizes(),
        )  # fmt: skip
        channel_gradients = channel_parts if group.per_word else [part.sum(0) for part in channel_parts]
        factor_gradients = factor_parts.sum((0, 1)).split(group.steps, dim=1) if group.rank else ()
        results = (*query_gradients, *key_gradients, *factor_gradients, *channel_gradients)
        return None, None, *(result.to(dtype) for result, dtype in zip(results, ctx.types, strict=True))


@dataclass(frozen=True)
class _Group:
    """What both directions work on: of queries and keys the powers alone."""

    query_powers: Tensor  # [N, B, L, WIDTH]
    key_powers: Tensor  # [N, B, WIDTH, HEIGHT]
    masks: tuple[Tensor, ...]
    factors: tuple[Tensor, ...]
    channels: tuple[Tensor, ...]
    steps: tuple[int, ...]
    size: int

    def tensors(self) -> tuple[Tensor, ...]:
        return self.query_powers, self.key_powers, *self.masks, *self.factors, *self.channels

    @classmethod
    def of(cls, tensors: tuple[Tensor, ...], steps: tuple[int, ...], size: int, *, masked: bool) -> _Group:
        count, rest = len(steps), tensors[2:]
        first = count if masked else 0
        return cls(tensors[0], tensors[1], rest[:first], rest[first:-count], rest[-count:], steps, size)

    @property
    def rank(self) -> int:
        return self.factors[0].shape[0] if self.factors else 0

    @property
    def per_word(self) -> bool:
        return self.channels[0].dim() == 3

    def real_gradients(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Nothing can come from the padding."""
        if not self.masks:
            return tuple(gradient.contiguous() for gradient in gradients)
        pairs = zip(self.masks, gradients, strict=True)
        return tuple(torch.where(mask[:, None], gradient, 0.0).contiguous() for mask, gradient in pairs)

    def numbers(self) -> tuple[Any, ...]:
        """Strides, sizes and what the kernels are specialised on, in their order."""
        count, batch, words, width = self.query_powers.shape
        return (
            tuple(mask.stride(0) for mask in self.masks) or tuple(0 for _ in self.steps),
            tuple(factor.stride(0) for factor in self.factors),
            self.steps,
            *(batch, words, self.size, width, self.key_powers.shape[3]),
            *(count, self.rank, self.per_word, bool(self.masks), self.query_powers.is_cuda),
        )


def _forward_tile(steps: Sequence[int], rank: int) -> Tile:
    rows = _rows(steps)
    tiles = cdiv(max(steps), rows)
    if not rank:
        tiles = cdiv(tiles, cdiv(tiles, MOST_TILES))
        return Tile(tiles, rows, **FORWARD[1]) if len(steps) == 1 else Tile(tiles, rows, lanes=8, warps=4, words=4)
    if rank > 1 or rows * tiles * len(steps) > 256:  # registers are scarce
        warps, words = (4, 4) if rows == 16 else (8, 2)
        return Tile(tiles, rows, lanes=4, warps=warps, words=words)
    return Tile(tiles, rows, **FORWARD[min(len(steps), 3)])


def _backward_tile(steps: Sequence[int], rank: int) -> Tile:
    rows = _rows(steps)
    tiles = cdiv(max(steps), rows)
    # A thread holds keys, X, gradients of scores, of keys and of each rank's factors: they must stay in registers.
    if len(steps) * tiles * rows * (3 + rank) <= 1024:
        return Tile(tiles, rows, **BACKWARD[min(len(steps), 3)])
    return Tile(tiles, rows, lanes=2, warps=1) if rows == 16 else Tile(tiles, rows, lanes=4, warps=4)


def _rows(steps: Sequence[int]) -> int:
    return 16 if max(steps) <= 128 else 64


def _packed(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def _all_or_none(masks: Sequence[Tensor | None], keys: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if all(mask is None for mask in masks):
        return ()
    return tuple(
        torch.ones(key.shape[:2], dtype=torch.bool, device=key.device) if mask is None else mask.contiguous()
        for key, mask in zip(keys, masks, strict=True)
    )
