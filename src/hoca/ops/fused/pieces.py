# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""What the forward and the backward kernel have in common.

Everything between X and the scores is local to a word and a channel, so that one pass over X is enough. The steps of
each modality are cut into TILES tiles of ROWS, and a value per tile is a tuple of N · TILES tensors [words, channels,
rows]: which modality a row belongs to is known when the kernel is compiled. Every element of a result has one program
that owns it: no atomics, the same bits every time.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def reciprocal(x, NATIVE: tl.constexpr):
    """One special-function operation, where `/` would be several instructions more; the interpreter has no assembly."""
    if NATIVE:
        r = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        r = 1.0 / x
    return r


@triton.jit
def tanh(x, NATIVE: tl.constexpr):
    """One special-function operation, with an error of at most 2^-11."""
    if NATIVE:
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        y = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
    return y


@triton.jit
def zeros(COUNT: tl.constexpr, SHAPE: tl.constexpr):
    many = ()
    for _ in tl.static_range(COUNT):
        many = many + (tl.zeros(SHAPE, tl.float32),)
    return many


@triton.jit
def load_real(masks, mask_b, video, row, steps, N: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip # noqa: E501
    """Which rows are steps of the video: one [1, 1, rows] per tile."""
    real = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            here = row + j * ROWS < steps[i]
            if MASKED:
                here = tl.load(masks[i] + video * mask_b[i] + row + j * ROWS, mask=here, other=0) != 0
            real = real + (here,)
    return real


@triton.jit
def load_factors(factors, factor_k, row, real, N: tl.constexpr, K: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip # noqa: E501
    """One [1, 1, rows] per rank and tile, 0 in the padding."""
    loaded = ()
    for k in tl.static_range(K):
        for i in tl.static_range(N):
            for j in tl.static_range(TILES):
                pointers = factors[i] + k * factor_k[i] + row + j * ROWS
                loaded = loaded + (tl.load(pointers, mask=real[i * TILES + j], other=0.0).to(tl.float32),)
    return loaded


@triton.jit
def load_inside(pointers, channel, D, EVEN: tl.constexpr):
    """In float32, 0 where there is no such channel; EVEN: every channel of a tile is one."""
    if EVEN:
        value = tl.load(pointers)
    else:
        value = tl.load(pointers, mask=channel < D, other=0.0)
    return value.to(tl.float32)


@triton.jit
def load_vectors(channels, video, word, L, channel, D, N: tl.constexpr, PER_WORD: tl.constexpr, EVEN: tl.constexpr):
    """One [1, channels, 1] per modality, or [words, channels, 1] if each word has its own."""
    loaded = ()
    for i in tl.static_range(N):
        pointers = channels[i] + channel
        if PER_WORD:
            pointers += (video * L + word) * D
        loaded = loaded + (load_inside(pointers, channel, D, EVEN),)
    return loaded


@triton.jit
def pool(weights, first: tl.constexpr, x, N: tl.constexpr, TILES: tl.constexpr):
    """Σ over the rows of weight · x: one [words, channels, 1] per modality; weights from `first` on."""
    pooled = ()
    for i in tl.static_range(N):
        total = weights[first + i * TILES] * x[i * TILES]
        for j in tl.static_range(1, TILES):
            total += weights[first + i * TILES + j] * x[i * TILES + j]
        pooled = pooled + (tl.sum(total, axis=2, keep_dims=True),)
    return pooled


@triton.jit
def product(pooled, left_out: tl.constexpr, also: tl.constexpr, N: tl.constexpr):
    """Of all modalities but one or two."""
    result = tl.full(pooled[0].shape, 1.0, tl.float32)
    for i in tl.static_range(N):
        if i != left_out and i != also:
            result *= pooled[i]
    return result
