# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""e^{2q} and e^{2k} of a group's queries and keys, once per row: tanh(q + k) then costs one reciprocal."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import cdiv

ALIGNMENT = 64  # of the powers' channels: a multiple of every tile's
ROWS = 16  # of a program
TWICE_LOG2E = tl.constexpr(2.8853900817779268)  # e^{2x} = 2^{x · 2 log2 e}
LARGEST_EXPONENT = tl.constexpr(124.0)  # so that a power is finite


@triton.jit
def _powers(x, shift):
    """e^{2(x + shift)}, at most 2^124: a product of two is never 0 · ∞."""
    return tl.exp2(tl.minimum((x + shift) * TWICE_LOG2E, LARGEST_EXPONENT))


@triton.jit
def place(channel, row, HEIGHT: tl.constexpr):
    """Where a key's power lies: blocks of 4 channels × 16 rows, so that what a warp loads at once lies side by side."""
    return (channel // 4) * (4 * HEIGHT) + (row // 16) * 64 + (channel % 4) * 16 + row % 16


@triton.jit
def powers_kernel(
    queries, keys, masks, query_powers, key_powers,
    query_b, query_l, key_b, key_t, mask_b, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    N: tl.constexpr, MASKED: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """e^{2(q - c)} [B, L, N, WIDTH] and e^{2(k + c)} [B, N, WIDTH, HEIGHT], where c is the query of the first word.

    About c, large q and k of opposite sign neither overflow nor lose their difference: only queries of one video that
    differ by more than 34 in a channel meet the limit of `_powers`. Keys lie as `place` says; what is no step or no
    channel is 0. Grid: blocks of channels, videos times modalities, blocks of steps and then of words.
    """
    video = (tl.program_id(1) // N).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)[:, None]
    inside = channel < D
    block = tl.program_id(2)
    for i in tl.static_range(N):
        if tl.program_id(1) % N == i:
            centre = tl.load(queries[i] + video * query_b[i] + channel, mask=inside, other=0.0).to(tl.float32)
            if block * ROWS < HEIGHT:
                row = block * ROWS + tl.arange(0, ROWS)[None, :]
                real = row < steps[i]
                if MASKED:
                    real = tl.load(masks[i] + video * mask_b[i] + row, mask=real, other=0) != 0
                pointers = keys[i] + video * key_b[i] + (row * key_t[i] + channel)
                key = tl.load(pointers, mask=real & inside, other=0.0).to(tl.float32)
                power = tl.where(real & inside, _powers(key, centre), 0.0)
                tl.store(key_powers + (video * N + i) * (WIDTH * HEIGHT) + place(channel, row, HEIGHT), power)
            else:
                word = (block - HEIGHT // ROWS) * ROWS + tl.arange(0, ROWS)[None, :]
                pointers = queries[i] + video * query_b[i] + word.to(tl.int64) * query_l[i] + channel
                query = tl.load(pointers, mask=(word < L) & inside, other=0.0).to(tl.float32)
                power = tl.where(inside, _powers(query, -centre), 0.0)
                tl.store(query_powers + ((video * L + word) * N + i) * WIDTH + channel, power, mask=word < L)


def padded(size: int) -> int:
    """The channels that are stored of so many."""
    return cdiv(size, ALIGNMENT) * ALIGNMENT


def strides(tensors: Sequence[Tensor]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """From video to video, and from row to row."""
    return tuple(tensor.stride(0) for tensor in tensors), tuple(tensor.stride(1) for tensor in tensors)


def make_powers(
    queries: Sequence[Tensor], keys: Sequence[Tensor], masks: Sequence[Tensor], height: int
) -> tuple[Tensor, Tensor]:
    """Of queries [B, L, N, WIDTH] and keys [B, N, WIDTH, height], in one launch; height is a multiple of 16."""
    count, (batch, words, size) = len(queries), queries[0].shape
    width = padded(size)
    query_powers = queries[0].new_empty((batch, words, count, width), dtype=torch.float32)
    key_powers = queries[0].new_empty((batch, count, width, height), dtype=torch.float32)
    powers_kernel[(width // ALIGNMENT, batch * count, height // ROWS + cdiv(words, ROWS))](
        tuple(queries), tuple(keys), tuple(masks) or tuple(queries), query_powers, key_powers,
        *strides(queries), *strides(keys),
        tuple(m.stride(0) for m in masks) or tuple(0 for _ in keys), tuple(key.shape[1] for key in keys),
        words, size, width, height, count, bool(masks), ROWS=ROWS, LANES=ALIGNMENT, num_warps=4,
    )  # fmt: skip
    return query_powers, key_powers
