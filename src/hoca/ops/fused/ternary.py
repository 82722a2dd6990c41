# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Exact attention of order 3: what the steps of one modality meet, out of the two others (eq. 8-9, contracted).

v[w, d] = Σ_{s,u} W[s, u] · X_1[w, s, d] · X_2[w, u, d] = Σ_s X_1 ∘ (W X_2): a matrix product per word, of a tile of X
that is made where it is used. A program owns some channels of a video and goes through the words, as in `kernels`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import cdiv, next_power_of_2

from hoca.ops.fused.kernels import _powers, _reciprocal

MOST_STEPS = 128  # of a modality: its tile of X has all of them
CHANNELS = 32
BACKWARD_CHANNELS = 16
WARPS = 8


@triton.jit
def _load_tile(keys, key_b, key_t, masks, mask_b, video, T, channel, D, ROWS: tl.constexpr, MASKED: tl.constexpr):
    """A modality's keys [rows, channels] and which rows are real [rows, 1]."""
    row = tl.arange(0, ROWS)
    real = row < T
    if MASKED:
        real = tl.load(masks + video * mask_b + row, mask=real, other=0) != 0
    pointers = keys + video * key_b + (row[:, None] * key_t + channel[None, :])
    key = tl.load(pointers, mask=real[:, None] & (channel < D)[None, :], other=0.0).to(tl.float32)
    return key, real[:, None]


@triton.jit
def _load_line(table, video, stride_b, word, stride_l, channel, D):
    """[1, channels]"""
    pointers = table + video * stride_b + (video * 0 + word) * stride_l + channel  # 64 bits wide, as the video is
    return tl.load(pointers, mask=channel < D, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _load_weights(weights, stride, S, U, ROWS_1: tl.constexpr, ROWS_2: tl.constexpr):
    s, u = tl.arange(0, ROWS_1)[:, None], tl.arange(0, ROWS_2)[None, :]
    return tl.load(weights + s * stride + u, mask=(s < S) & (u < U), other=0.0).to(tl.float32)


@triton.jit
def _pair_forward(
    query_1, query_2, keys_1, keys_2, mask_1, mask_2, weights, vectors,
    query_b1, query_b2, query_l1, query_l2, key_b1, key_b2, key_t1, key_t2, mask_b1, mask_b2, stride, S, U, L, D,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, PRECISION: tl.constexpr,
    ROWS_1: tl.constexpr, ROWS_2: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """v = Σ_s X_1 ∘ (W X_2), zero at padded steps. Grid: blocks of channels, videos."""
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * C + tl.arange(0, C)
    key_1, real_1 = _load_tile(keys_1, key_b1, key_t1, mask_1, mask_b1, video, S, channel, D, ROWS_1, MASKED)
    key_2, real_2 = _load_tile(keys_2, key_b2, key_t2, mask_2, mask_b2, video, U, channel, D, ROWS_2, MASKED)
    weight = _load_weights(weights, stride, S, U, ROWS_1, ROWS_2)
    centre_1 = _load_line(query_1, video, query_b1, 0, query_l1, channel, D)
    centre_2 = _load_line(query_2, video, query_b2, 0, query_l2, channel, D)
    powers_1, powers_2 = _powers(key_1, centre_1), _powers(key_2, centre_2)
    for word in range(0, L):
        q_1 = _powers(_load_line(query_1, video, query_b1, word, query_l1, channel, D), -centre_1)
        q_2 = _powers(_load_line(query_2, video, query_b2, word, query_l2, channel, D), -centre_2)
        x_1 = tl.where(real_1, 1.0 - 2.0 * _reciprocal(q_1 * powers_1 + 1.0, NATIVE), 0.0)
        x_2 = tl.where(real_2, 1.0 - 2.0 * _reciprocal(q_2 * powers_2 + 1.0, NATIVE), 0.0)
        vector = tl.sum(x_1 * tl.dot(weight, x_2, input_precision=PRECISION), axis=0)
        tl.store(vectors + (video * L + word) * D + channel, vector, mask=channel < D)


@triton.jit
def _pair_backward(
    query_1, query_2, keys_1, keys_2, mask_1, mask_2, weights, gradients,
    of_query_1, of_query_2, of_keys_1, of_keys_2, of_weights,
    query_b1, query_b2, query_l1, query_l2, key_b1, key_b2, key_t1, key_t2, mask_b1, mask_b2, stride, S, U, L, D,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, PRECISION: tl.constexpr,
    ROWS_1: tl.constexpr, ROWS_2: tl.constexpr, C: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """∂X_1 = g ∘ (W X_2), ∂X_2 = Wᵀ (g ∘ X_1), ∂W = Σ (g ∘ X_1) X_2ᵀ, where g is the gradient of v.

    FIRST: ∂X_1 and ∂W; SECOND: ∂X_2. Grid: blocks of channels, videos. of_weights [B, blocks, S, U] are parts, to be
    summed.
    """
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * C + tl.arange(0, C)
    inside = channel < D
    key_1, real_1 = _load_tile(keys_1, key_b1, key_t1, mask_1, mask_b1, video, S, channel, D, ROWS_1, MASKED)
    key_2, real_2 = _load_tile(keys_2, key_b2, key_t2, mask_2, mask_b2, video, U, channel, D, ROWS_2, MASKED)
    weight = _load_weights(weights, stride, S, U, ROWS_1, ROWS_2)
    centre_1 = _load_line(query_1, video, query_b1, 0, query_l1, channel, D)
    centre_2 = _load_line(query_2, video, query_b2, 0, query_l2, channel, D)
    powers_1, powers_2 = _powers(key_1, centre_1), _powers(key_2, centre_2)
    sum_1 = tl.zeros([ROWS_1, C], tl.float32)
    sum_2 = tl.zeros([ROWS_2, C], tl.float32)
    of_weight = tl.zeros([ROWS_1, ROWS_2], tl.float32)
    for word in range(0, L):
        q_1 = _powers(_load_line(query_1, video, query_b1, word, query_l1, channel, D), -centre_1)
        q_2 = _powers(_load_line(query_2, video, query_b2, word, query_l2, channel, D), -centre_2)
        r_1 = _reciprocal(q_1 * powers_1 + 1.0, NATIVE)
        r_2 = _reciprocal(q_2 * powers_2 + 1.0, NATIVE)
        x_2 = tl.where(real_2, 1.0 - 2.0 * r_2, 0.0)
        gradient = tl.load(gradients + (video * L + word) * D + channel, mask=inside, other=0.0).to(tl.float32)[None, :]
        scaled = tl.where(real_1, (1.0 - 2.0 * r_1) * gradient, 0.0)  # g ∘ X_1
        line = (video * L + word) * D + channel
        if FIRST:
            of_weight += tl.dot(scaled, tl.trans(x_2), input_precision=PRECISION)
            of_z = tl.dot(weight, x_2, input_precision=PRECISION) * gradient * (r_1 - r_1 * r_1)
            of_z = tl.where(real_1, of_z, 0.0)
            sum_1 += of_z
            tl.store(of_query_1 + line, (4.0 * tl.sum(of_z, axis=0)).to(of_query_1.dtype.element_ty), mask=inside)
        if SECOND:
            of_z = tl.dot(tl.trans(weight), scaled, input_precision=PRECISION) * (r_2 - r_2 * r_2)
            of_z = tl.where(real_2, of_z, 0.0)
            sum_2 += of_z
            tl.store(of_query_2 + line, (4.0 * tl.sum(of_z, axis=0)).to(of_query_2.dtype.element_ty), mask=inside)

    s, u = tl.arange(0, ROWS_1)[:, None], tl.arange(0, ROWS_2)[:, None]
    across = tl.arange(0, ROWS_2)[None, :]
    if FIRST:
        pointers = of_keys_1 + (video * S + s) * D + channel[None, :]
        tl.store(pointers, (4.0 * sum_1).to(of_keys_1.dtype.element_ty), mask=(s < S) & inside[None, :])
        block = video * tl.num_programs(0) + tl.program_id(0)
        tl.store(of_weights + (block * S + s) * U + across, of_weight, mask=(s < S) & (across < U))
    if SECOND:
        pointers = of_keys_2 + (video * U + u) * D + channel[None, :]
        tl.store(pointers, (4.0 * sum_2).to(of_keys_2.dtype.element_ty), mask=(u < U) & inside[None, :])


def pair_vectors(
    queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], weight: Tensor, masks: tuple[Tensor, Tensor] | None
) -> Tensor:
    """queries[i] [B, L, D], keys[i] [B, T_i, D], weight [T_1, T_2], masks[i] [B, T_i] → v [B, L, D], float32."""
    return _Pair.apply(*queries, *keys, weight, *(masks or (None, None)))


class _Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor | None) -> Tensor:
        query_1, query_2, key_1, key_2, weight = tensors = [_packed(t) for t in given[:5] if t is not None]
        masks = given[5:]
        batch, words, size = query_1.shape
        vectors = query_1.new_empty((batch, words, size), dtype=torch.float32)
        _pair_forward[(cdiv(size, CHANNELS), batch)](
            query_1, query_2, key_1, key_2, *_masks(masks, query_1), weight, vectors, *_numbers(tensors, masks),
            CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(*given)
        return vectors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query_1, query_2, key_1, key_2, weight = tensors = [_packed(t) for t in ctx.saved_tensors[:5]]
        masks = ctx.saved_tensors[5:]
        batch, _, size = query_1.shape
        blocks = cdiv(size, BACKWARD_CHANNELS)
        results = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors[:4]]
        parts = query_1.new_empty((batch * blocks, *weight.shape), dtype=torch.float32)
        # Three products in float32 are three times as many tiles: those of both sides do not fit the shared memory.
        for first, second in ((True, False), (False, True)) if query_1.dtype == torch.float32 else ((True, True),):
            _pair_backward[(blocks, batch)](
                query_1, query_2, key_1, key_2, *_masks(masks, query_1), weight, gradients[0].contiguous(),
                *results, parts, *_numbers(tensors, masks), BACKWARD_CHANNELS, first, second, num_warps=WARPS,
            )  # fmt: skip
        return *results, parts.sum(0).to(weight.dtype), None, None


def _packed(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _masks(masks: tuple[Tensor | None, ...], other: Tensor) -> list[Tensor]:
    return [other if mask is None else mask.contiguous() for mask in masks]


def _numbers(tensors: list[Tensor], masks: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    """Strides, sizes and what the kernels are specialised on, in their order."""
    query_1, query_2, key_1, key_2, weight = tensors
    strides = [t.stride(axis) for axis in (0, 1) for t in (query_1, query_2)]
    strides += [t.stride(axis) for axis in (0, 1) for t in (key_1, key_2)]
    steps = (key_1.shape[1], key_2.shape[1])
    precision = "tf32x3" if query_1.dtype == torch.float32 else "tf32"
    rows = [max(16, next_power_of_2(t)) for t in steps]
    sizes = (*steps, weight.stride(0), *steps, *query_1.shape[1:])
    return (*strides, *sizes, masks[0] is not None, query_1.is_cuda, precision, *rows)
