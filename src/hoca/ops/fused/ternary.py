# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""Exact attention of order 3: what the steps of one modality meet, out of the two others (eq. 8-9, contracted).

v[w, d] = Σ_{s,u} W[s, u] · X_1[w, s, d] · X_2[w, u, d] = Σ_s X_1 ∘ (X_2' W')_s: a matrix product per word, of a tile of
X that is made where it is used. A program owns some channels of a video and goes through the words, as in `backward`,
with tiles [channels, rows], and W stays in shared memory. A modality's rows are at most two tiles, of BIG and SMALL
rows: 80 steps are 64 and 16.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import cdiv, next_power_of_2

from hoca.ops.fused.pieces import reciprocal
from hoca.ops.fused.powers import make_powers, place
from hoca.ops.fused.tf32 import rounded

MOST_STEPS = 128  # of a modality
CHANNELS = 64  # of a program: the rows of a tensor core's product
WARPS = 4
WEIGHT_WARPS = 8  # where the accumulators, [steps, steps], would fill the registers of four


@triton.jit
def _row(index: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr):
    """The rows of a tile, [rows]."""
    if index == 0:
        row = tl.arange(0, BIG)
    else:
        row = BIG + tl.arange(0, SMALL)
    return row


@triton.jit
def _load_keys(powers, HEIGHT: tl.constexpr, channel, COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr):
    """One [channels, rows] per tile."""
    keys = ()
    for tile in tl.static_range(COUNT):
        keys = keys + (tl.load(powers + place(channel, _row(tile, BIG, SMALL)[None, :], HEIGHT)),)
    return keys


@triton.jit
def _real(mask, row, T, MASKED: tl.constexpr):
    """Which rows are steps of the video."""
    here = row < T
    if MASKED:
        here = tl.load(mask + row, mask=here, other=0) != 0
    return here


@triton.jit
def _load_weights(
    weights, stride_k, stride_n, mask_k, mask_n, K_STEPS, N_STEPS,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """W from the other modality's rows to one's own, 0 in the padding, where X may then be anything.

    The upper halves of COUNT² blocks, then the lower ones.
    """
    upper = ()
    lower = ()
    for a in tl.static_range(COUNT):
        for b in tl.static_range(COUNT):
            k, n = _row(a, BIG, SMALL)[:, None], _row(b, BIG, SMALL)[None, :]
            here = _real(mask_k, k, K_STEPS, MASKED) & _real(mask_n, n, N_STEPS, MASKED)
            weight = tl.load(weights + k * stride_k + n * stride_n, mask=here, other=0.0).to(tl.float32)
            high = rounded(weight)
            upper = upper + (high,)
            lower = lower + (weight - high,)
    return upper + lower


@triton.jit
def _tanh(query, keys, COUNT: tl.constexpr, NATIVE: tl.constexpr):
    """X of each tile."""
    x = ()
    for tile in tl.static_range(COUNT):
        x = x + (1.0 - 2.0 * reciprocal(query * keys[tile] + 1.0, NATIVE),)
    return x


@triton.jit
def _dot(a, high, low, total, SPLIT: tl.constexpr):
    """total + a b in TF32; SPLIT, as three such products of halves, which together have float32's accuracy."""
    if SPLIT:
        a_high = rounded(a)
        total = tl.dot(a - a_high, high, total, input_precision="tf32")
        total = tl.dot(a_high, low, total, input_precision="tf32")
        total = tl.dot(a_high, high, total, input_precision="tf32")
    else:
        total = tl.dot(a, high, total, input_precision="tf32")
    return total


@triton.jit
def _weigh(x, weights, COUNT: tl.constexpr, SPLIT: tl.constexpr):
    """X' W: one [channels, rows] per tile of one's own rows."""
    weighed = ()
    for b in tl.static_range(COUNT):
        total = tl.zeros([x[0].shape[0], weights[b].shape[1]], tl.float32)
        for a in tl.static_range(COUNT):
            total = _dot(x[a], weights[a * COUNT + b], weights[(COUNT + a) * COUNT + b], total, SPLIT)
        weighed = weighed + (total,)
    return weighed


@triton.jit
def vector_kernel(
    query_powers, key_powers, masks, weights, vectors,
    mask_b, stride, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, SPLIT: tl.constexpr,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """v = Σ_s X_1 ∘ (X_2' W'). Grid: blocks of channels, videos."""
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    mask_1, mask_2 = masks[0] + video * mask_b[0], masks[1] + video * mask_b[1]
    keys_1 = _load_keys(key_powers + 2 * video * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    keys_2 = _load_keys(key_powers + (2 * video + 1) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    weight = _load_weights(weights, 1, stride, mask_2, mask_1, steps[1], steps[0], COUNT, BIG, SMALL, MASKED)
    for word in range(0, L):
        query_1 = tl.load(query_powers + 2 * (video * L + word) * WIDTH + channel)
        query_2 = tl.load(query_powers + (2 * (video * L + word) + 1) * WIDTH + channel)
        weighed = _weigh(_tanh(query_2, keys_2, COUNT, NATIVE), weight, COUNT, SPLIT)
        x = _tanh(query_1, keys_1, COUNT, NATIVE)
        vector = tl.zeros([C, 1], tl.float32)
        for tile in tl.static_range(COUNT):
            vector += tl.sum(x[tile] * weighed[tile], axis=1, keep_dims=True)
        tl.store(vectors + (video * L + word) * D + channel, vector, mask=channel < D)


@triton.jit
def step_gradient_kernel(
    query_powers, key_powers, masks, weights, gradients, query_gradients, key_gradients,
    mask_b, stride_k, stride_n, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr, OWN: tl.constexpr,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, SPLIT: tl.constexpr,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """∂/∂q = Σ_r G and ∂/∂k = Σ_w G of modality OWN, where G = (1 - X²) · g · (X_other' W) and g is the gradient of v.

    Grid: blocks of channels, videos.
    """
    OTHER: tl.constexpr = 1 - OWN
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    inside = channel < D
    mask_own, mask_other = masks[OWN] + video * mask_b[OWN], masks[OTHER] + video * mask_b[OTHER]
    own = _load_keys(key_powers + (2 * video + OWN) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    other = _load_keys(key_powers + (2 * video + OTHER) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    weight = _load_weights(
        weights, stride_k, stride_n, mask_other, mask_own, steps[OTHER], steps[OWN], COUNT, BIG, SMALL, MASKED
    )
    sums = ()
    for tile in tl.static_range(COUNT):
        sums = sums + (tl.zeros([C, own[tile].shape[1]], tl.float32),)
    for word in range(0, L):
        query = tl.load(query_powers + (2 * (video * L + word) + OWN) * WIDTH + channel)
        other_query = tl.load(query_powers + (2 * (video * L + word) + OTHER) * WIDTH + channel)
        gradient = tl.load(gradients + (video * L + word) * D + channel, mask=inside, other=0.0)
        weighed = _weigh(_tanh(other_query, other, COUNT, NATIVE), weight, COUNT, SPLIT)
        of_query = tl.zeros([C, 1], tl.float32)
        added = ()
        for tile in tl.static_range(COUNT):
            r = reciprocal(query * own[tile] + 1.0, NATIVE)
            of_z = weighed[tile] * gradient * (r - r * r)  # 1 - X² = 4 (r - r²): the 4 comes last
            of_query += tl.sum(of_z, axis=1, keep_dims=True)
            added = added + (sums[tile] + of_z,)
        sums = added
        value = (4.0 * of_query).to(query_gradients.dtype.element_ty)
        tl.store(query_gradients + (video * L + word) * D + channel, value, mask=inside)
    for tile in tl.static_range(COUNT):
        row = _row(tile, BIG, SMALL)[None, :]
        value = (4.0 * sums[tile]).to(key_gradients.dtype.element_ty)
        tl.store(key_gradients + (video * steps[OWN] + row) * D + channel, value, mask=(row < steps[OWN]) & inside)


@triton.jit
def weight_gradient_kernel(
    query_powers, key_powers, masks, gradients, parts,
    mask_b, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, SPLIT: tl.constexpr,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, ROWS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """∂/∂W = Σ_{w,d} (g ∘ X_1) X_2': parts [B · blocks, S, U], to be summed. Grid: blocks of channels, videos."""
    video = tl.program_id(1).to(tl.int64)
    across = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    channel = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    row = tl.arange(0, ROWS)[:, None]
    pointers = key_powers + 2 * video * (WIDTH * HEIGHT) + place(across, row, HEIGHT)
    keys_1 = tl.load(pointers, mask=row < HEIGHT, other=0.0)  # [rows, channels]
    keys_2 = _load_keys(key_powers + (2 * video + 1) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    totals = ()
    for tile in tl.static_range(COUNT):
        totals = totals + (tl.zeros([ROWS, keys_2[tile].shape[1]], tl.float32),)
    for word in range(0, L):
        query_1 = tl.load(query_powers + 2 * (video * L + word) * WIDTH + across)
        query_2 = tl.load(query_powers + (2 * (video * L + word) + 1) * WIDTH + channel)
        gradient = tl.load(gradients + (video * L + word) * D + across, mask=across < D, other=0.0)
        x_1 = 1.0 - 2.0 * reciprocal(query_1 * keys_1 + 1.0, NATIVE)
        x_2 = _tanh(query_2, keys_2, COUNT, NATIVE)
        added = ()
        for tile in tl.static_range(COUNT):
            high = rounded(x_2[tile])
            zeros = tl.zeros([ROWS, high.shape[1]], tl.float32)  # not the totals: tensor cores cut off what they add
            added = added + (totals[tile] + _dot(x_1 * gradient, high, x_2[tile] - high, zeros, SPLIT),)
        totals = added
    block = video * tl.num_programs(0) + tl.program_id(0)
    real_1 = _real(masks[0] + video * mask_b[0], row, steps[0], MASKED)
    for tile in tl.static_range(COUNT):
        column = _row(tile, BIG, SMALL)[None, :]
        real = real_1 & _real(masks[1] + video * mask_b[1], column, steps[1], MASKED)
        here = (row < steps[0]) & (column < steps[1])
        value = tl.where(real, totals[tile], 0.0)
        tl.store(parts + (block * steps[0] + row) * steps[1] + column, value, mask=here)


def pair_vectors(
    queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], weight: Tensor, masks: tuple[Tensor, Tensor] | None
) -> Tensor:
    """queries[i] [B, L, D], keys[i] [B, T_i, D], weight [T_1, T_2], masks[i] [B, T_i] → v [B, L, D], float32."""
    return _Pair.apply(*queries, *keys, weight, *(masks or ()))


class _Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        queries, keys, weight, masks = given[:2], given[2:4], given[4].contiguous(), given[5:]
        batch, words, size = queries[0].shape
        steps = tuple(key.shape[1] for key in keys)
        powers = make_powers(queries, keys, masks, sum(_rows(steps)))
        vectors = queries[0].new_empty((batch, words, size), dtype=torch.float32)
        ctx.steps, ctx.size, ctx.types = steps, size, tuple(tensor.dtype for tensor in given[:5])
        vector_kernel[(cdiv(size, CHANNELS), batch)](
            *powers, masks or queries, weight, vectors, _mask_strides(masks), weight.stride(0),
            *_numbers(ctx, powers, masks), num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(*powers, weight, *masks)
        return vectors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        powers, weight, masks = ctx.saved_tensors[:2], ctx.saved_tensors[2], ctx.saved_tensors[3:]
        batch, words, _, _ = powers[0].shape
        gradient, strides = gradients[0].contiguous(), _mask_strides(masks)
        grid = cdiv(ctx.size, CHANNELS), batch
        numbers = _numbers(ctx, powers, masks)
        results = [gradient.new_empty((batch, words, ctx.size), dtype=dtype) for dtype in ctx.types[:2]]
        results += [
            gradient.new_empty((batch, t, ctx.size), dtype=dtype)
            for t, dtype in zip(ctx.steps, ctx.types[2:4], strict=True)
        ]
        for own, (stride_k, stride_n) in enumerate(((1, weight.stride(0)), (weight.stride(0), 1))):
            step_gradient_kernel[grid](
                *powers, masks or powers, weight, gradient, results[own], results[2 + own], strides, stride_k, stride_n,
                *numbers[:5], own, *numbers[5:], num_warps=WARPS,
            )  # fmt: skip
        parts = gradient.new_empty((grid[0] * batch, *weight.shape))
        rows = next_power_of_2(sum(_rows(ctx.steps)))
        weight_gradient_kernel[grid](
            *powers, masks or powers, gradient, parts, strides, *numbers[:-1], rows, CHANNELS, num_warps=WEIGHT_WARPS
        )
        return *results, parts.sum(0).to(ctx.types[4]), *(None for _ in masks)


def _rows(steps: tuple[int, ...]) -> tuple[int, int]:
    """BIG and SMALL."""
    most = max(*steps, 16)
    return (next_power_of_2(most), 0) if most <= 64 else (64, max(16, next_power_of_2(most - 64)))


def _mask_strides(masks: tuple[Tensor, ...]) -> tuple[int, ...]:
    return tuple(mask.stride(0) for mask in masks) or (0, 0)


def _numbers(ctx: Any, powers: tuple[Tensor, ...], masks: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """Sizes and what the kernels are specialised on, in their order."""
    (_, words, _, width), height = powers[0].shape, powers[1].shape[3]
    big, small = _rows(ctx.steps)
    split = ctx.types[0] == torch.float32
    sizes = (ctx.steps, words, ctx.size, width, height)
    return (*sizes, bool(masks), not triton.knobs.runtime.interpret, split, 2 if small else 1, big, small, CHANNELS)
