"""One group, one pass: the kernels as one differentiable function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor
from triton import cdiv

from hoca.ops.copies import kept
from hoca.ops.fused.backward import backward_kernel
from hoca.ops.fused.forward import forward_kernel
from hoca.ops.fused.pairs import pair_keys
from hoca.ops.fused.powers import ALIGNMENT, make_powers, padded, strides

MOST_ROWS = 512  # more steps than these in one group do not fit the registers of a multiprocessor
MOST_RANK = 4
MOST_TILES = 5  # of a program, where it need not have them all
FEW = 256  # programs: with so few, as in a search, a multiprocessor has room for larger ones
MOST_WARPS = 4  # then: the groups of a model run side by side, and 8 leave room for one alone


# By the number of modalities, for 80 steps of each, as `benchmarks/tune_attention.py` times them; 0: without factors,
# of any number but one.
FORWARD: dict[int, dict[str, int]] = {
    0: {"lanes": 16, "words": 2, "warps": 4},
    1: {"lanes": 32, "words": 1, "warps": 4, "ahead": 1},
    2: {"lanes": 16, "words": 2, "warps": 4, "ahead": 1, "registers": 128},
    3: {"lanes": 8, "words": 1, "warps": 2, "ahead": 1, "registers": 128},
}
HALF: dict[int, dict[str, int]] = {  # of bf16 arguments
    0: {"lanes": 16, "words": 2, "warps": 4},
    1: {"lanes": 64, "words": 1, "warps": 8},
    2: {"lanes": 8, "words": 1, "warps": 2, "ahead": 1, "unroll": 2, "registers": 128},
    3: {"lanes": 8, "words": 1, "warps": 2, "ahead": 1, "unroll": 2, "registers": 144},
}
BACKWARD: dict[int, dict[str, int]] = {
    1: {"lanes": 16, "warps": 1, "ahead": 1},
    2: {"lanes": 4, "warps": 1, "ahead": 1},
    3: {"lanes": 4, "warps": 1, "ahead": 1},
}
HALF_BACKWARD: dict[int, dict[str, int]] = BACKWARD | {2: {"lanes": 4, "warps": 1, "registers": 128}}


@dataclass(frozen=True)
class Tile:
    """How a kernel divides its work: fixed by the group's sizes, so that no shape is tuned or compiled anew."""

    tiles: int  # of each modality
    rows: int
    lanes: int
    warps: int
    words: int = 1
    ahead: int = 0  # 1: load what comes next while working
    unroll: int = 1  # blocks of channels in a round of the loop
    registers: int = 0  # of a thread at most, where the compiler would take more

    def with_more_warps(self) -> Tile:
        """The same with as many channels more at a time."""
        times = max(1, min(MOST_WARPS // self.warps, ALIGNMENT // self.lanes))
        return replace(self, lanes=times * self.lanes, warps=times * self.warps)

    def sizes(self) -> dict[str, int]:
        """By the kernels' names."""
        sizes = {"TILES": self.tiles, "ROWS": self.rows, "LANES": self.lanes, "num_warps": self.warps}
        limit = {"maxnreg": self.registers} if self.registers else {}
        return sizes | {"AHEAD": bool(self.ahead)} | limit


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
        group = _Group(
            tensors[:count],
            tensors[count : 2 * count],
            tensors[2 * count : -count],
            tensors[-count:],
            _all_or_none(masks, tensors[count : 2 * count]),
        )
        queries = group.queries
        batch, words, size = queries[0].shape
        dtype = torch.promote_types(queries[0].dtype, group.channels[0].dtype)
        scores = tuple(queries[0].new_empty((batch, words, t), dtype=dtype) for t in group.steps)
        tile = _forward_tile(group.steps, group.rank, half=group.half)
        blocks = cdiv(max(group.steps), tile.tiles * tile.rows)
        if batch * cdiv(words, tile.words) * blocks <= FEW:
            tile = tile.with_more_warps()
        height = blocks * tile.tiles * tile.rows
        direct = group.half and not group.rank
        keys = group.keys
        if group.half and not direct:
            keys = (kept(partial(pair_keys, keys, group.masks, height), *keys, *group.masks, height),)
        elif not direct:
            query_powers, key_powers = make_powers(queries, keys, group.masks, height)
            queries, keys = query_powers.unbind(2), (key_powers,)
        forward_kernel[(cdiv(words, tile.words), batch, blocks)](
            queries, keys, group.masks or group.channels, scores, group.factors, group.channels,
            *strides(queries), *strides(keys), *group.numbers(height), HALF=group.half, DIRECT=direct,
            EVEN=size % tile.lanes == 0, WORDS=tile.words, UNROLL=tile.unroll, **tile.sizes(),
        )  # fmt: skip
        ctx.save_for_backward(*tensors, *group.masks)
        ctx.count, ctx.given = count, len(tensors)
        return scores

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tensors, masks, count = ctx.saved_tensors[: ctx.given], ctx.saved_tensors[ctx.given :], ctx.count
        group = _Group(
            tensors[:count], tensors[count : 2 * count], tensors[2 * count : -count], tensors[-count:], masks
        )
        batch, words, size = group.queries[0].shape
        tile = _backward_tile(group.steps, group.rank, half=group.half)
        blocks = cdiv(size, tile.lanes)
        height = tile.tiles * tile.rows
        queries, keys = group.queries, group.keys
        if not group.half:
            query_powers, key_powers = make_powers(queries, keys, masks, height)
            queries, keys = query_powers.unbind(2), (key_powers,)
        query_gradients = tuple(q.new_empty(q.shape) for q in group.queries)
        key_gradients = tuple(k.new_empty(k.shape) for k in group.keys)
        new = partial(queries[0].new_empty, dtype=torch.float32)
        factor_parts = new((batch, blocks, group.rank, sum(group.steps)))
        channel_parts = new((count, batch, *([words] if group.per_word else []), size))
        backward_kernel[(blocks, batch)](
            queries, keys, masks or group.channels,
            group.real_gradients(gradients), group.factors, group.channels,
            query_gradients, key_gradients, factor_parts, channel_parts.unbind(0),
            *strides(queries), *strides(keys), *group.numbers(height), HALF=group.half,
            EVEN=size % tile.lanes == 0, FULL=all(t == height for t in group.steps), **tile.sizes(),
        )  # fmt: skip
        channel_gradients = (channel_parts if group.per_word else channel_parts.sum(1)).unbind(0)
        factor_gradients = factor_parts.sum((0, 1)).split(group.steps, dim=1) if group.rank else ()
        results = (*query_gradients, *key_gradients, *factor_gradients, *channel_gradients)
        return None, None, *(result.to(given.dtype) for result, given in zip(results, tensors, strict=True))


@dataclass(frozen=True)
class _Group:
    """What both directions work on."""

    queries: tuple[Tensor, ...]  # [B, L, D]
    keys: tuple[Tensor, ...]  # [B, T_i, D]
    factors: tuple[Tensor, ...]
    channels: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(key.shape[1] for key in self.keys)

    @property
    def rank(self) -> int:
        return self.factors[0].shape[0] if self.factors else 0

    @property
    def per_word(self) -> bool:
        return self.channels[0].dim() == 3

    @property
    def half(self) -> bool:
        """Whether bf16's accuracy is enough: where a float32 X would be lost in what the arguments lack."""
        of_bf16 = all(tensor.dtype == torch.bfloat16 for tensor in (*self.queries, *self.keys))
        return of_bf16 and (not self.rank or _is_small(self.steps, self.rank))

    def real_gradients(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Nothing can come from the padding."""
        if not self.masks:
            return tuple(gradient.contiguous() for gradient in gradients)
        pairs = zip(self.masks, gradients, strict=True)
        return tuple(torch.where(mask[:, None], gradient, 0.0).contiguous() for mask, gradient in pairs)

    def numbers(self, height: int) -> tuple[Any, ...]:
        """Strides, sizes and what the kernels are specialised on, in their order; `height` is that of the powers."""
        _, words, size = self.queries[0].shape
        return (
            tuple(mask.stride(0) for mask in self.masks) or tuple(0 for _ in self.steps),
            tuple(factor.stride(0) for factor in self.factors),
            self.steps,
            *(words, size, padded(size), height),
            *(len(self.keys), self.rank, self.per_word, bool(self.masks), not triton.knobs.runtime.interpret),
        )


def _forward_tile(steps: Sequence[int], rank: int, *, half: bool) -> Tile:
    table = HALF if half else FORWARD
    rows = 8 if half and rank else _rows(steps)  # 8: as keys are paired
    tiles = cdiv(max(steps), 16) * 2 if half and rank else cdiv(max(steps), rows)
    if not rank:
        tiles = cdiv(tiles, cdiv(tiles, MOST_TILES))
        return Tile(tiles, rows, **table[1 if len(steps) == 1 else 0])
    if not _is_small(steps, rank):  # registers are scarce: few channels a warp
        return Tile(tiles, rows, lanes=8, warps=4 if rows == 16 else 8)
    return Tile(tiles, rows, **table[min(len(steps), 3)])


def _backward_tile(steps: Sequence[int], rank: int, *, half: bool) -> Tile:
    rows = _rows(steps)
    tiles = cdiv(max(steps), rows)
    # A thread holds keys, X, gradients of scores, of keys and of each rank's factors: they must stay in registers.
    if len(steps) * tiles * rows * (3 + rank) <= 1024:
        return Tile(tiles, rows, **(HALF_BACKWARD if half else BACKWARD)[min(len(steps), 3)])
    return Tile(tiles, rows, lanes=2, warps=1) if rows == 16 else Tile(tiles, rows, lanes=4, warps=4)


def _is_small(steps: Sequence[int], rank: int) -> bool:
    rows = _rows(steps)
    return rank == 1 and rows * cdiv(max(steps), rows) * len(steps) <= 256


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
