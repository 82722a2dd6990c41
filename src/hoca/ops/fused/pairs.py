# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""bf16 keys of a group, two steps in a word: half the bytes for the forward kernel, and one instruction a key."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from hoca.ops.fused.powers import ALIGNMENT, padded, strides

ROWS = 8  # of a pair's half


@triton.jit
def pair_place(channel, row, block, HEIGHT: tl.constexpr):
    """Where the word of the steps `row` and `row` + 8 of a block of 16 lies: 4 channels of a block side by side."""
    return (channel // 4) * (2 * HEIGHT) + block * 32 + (channel % 4) * 8 + row


@triton.jit
def _load_bits(keys, mask, row, channel, steps, D, stride, MASKED: tl.constexpr):
    real = row < steps
    if MASKED:
        real = tl.load(mask + row, mask=real, other=0) != 0
    key = tl.load(keys + row * stride + channel, mask=real & (channel < D), other=0.0)
    return key.to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF


@triton.jit
def pairs_kernel(
    keys, masks, words, key_b, key_t, mask_b, steps, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    N: tl.constexpr, MASKED: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Keys [B, T_i, D] → words [B, N, WIDTH, HEIGHT / 2] as `pair_place` says; what is no step or no channel is 0.

    Grid: blocks of channels, videos times modalities, blocks of steps.
    """
    video = (tl.program_id(1) // N).to(tl.int64)
    block = tl.program_id(2)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)[:, None]
    row = tl.arange(0, ROWS)[None, :]
    for i in tl.static_range(N):
        if tl.program_id(1) % N == i:
            key, mask, first = keys[i] + video * key_b[i], masks[i] + video * mask_b[i], 2 * block * ROWS
            low = _load_bits(key, mask, first + row, channel, steps[i], D, key_t[i], MASKED)
            high = _load_bits(key, mask, first + ROWS + row, channel, steps[i], D, key_t[i], MASKED)
            start = (video * N + i) * (WIDTH * HEIGHT // 2)
            tl.store(words + start + pair_place(channel, row, block, HEIGHT), low | (high << 16))


def pair_keys(keys: Sequence[Tensor], masks: Sequence[Tensor], height: int) -> Tensor:
    """keys[i] [B, T_i, D] → words [B, N, WIDTH, height / 2]; height is a multiple of 16."""
    count, (batch, _, size) = len(keys), keys[0].shape
    width = padded(size)
    words = keys[0].new_empty((batch, count, width, height // 2), dtype=torch.int32)
    pairs_kernel[(width // ALIGNMENT, batch * count, height // (2 * ROWS))](
        tuple(keys), tuple(masks) or tuple(keys), words,
        *strides(keys),
        tuple(m.stride(0) for m in masks) or tuple(0 for _ in keys), tuple(key.shape[1] for key in keys),
        size, width, height, count, bool(masks), ROWS=ROWS, LANES=ALIGNMENT, num_warps=4,
    )  # fmt: skip
    return words
