# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""Exact attention of order 3: what the steps of one modality meet, out of the two others (eq. 8-9, contracted).

v_l[w, d] = Σ_{s,u} W_l[s, u] · X_i[w, s, d] · X_j[w, u, d] = Σ_s X_i ∘ (X_j' W_l')_s, where i < j are the modalities
beside l: a matrix product per word, of a tile of X that is made where it is used. A program owns some channels of a
video for one l and goes through the words, as in `backward`, with tiles [channels, rows], and W_l stays in shared
memory. A modality's rows are at most two tiles, of BIG and SMALL rows: 80 steps are 64 and 16.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hoca.ops.fused.pieces import reciprocal
from hoca.ops.fused.powers import place
from hoca.ops.fused.tf32 import rounded


@triton.jit
def _pick(values, index):
    """One of three."""
    return tl.where(index == 0, values[0], tl.where(index == 1, values[1], values[2]))


@triton.jit
def _beside(l):
    """The two modalities beside l, in their order."""
    return tl.where(l == 0, 1, 0), tl.where(l == 2, 1, 2)


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
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, MASKED: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """W from the other modality's rows to one's own, 0 in the padding, where X may then be anything.

    COUNT² blocks as `_halves` has them, the first halves, then the second ones; and what they are to be multiplied by.
    """
    blocks = ()
    most = 0.0
    for a in tl.static_range(COUNT):
        for b in tl.static_range(COUNT):
            k, n = _row(a, BIG, SMALL)[:, None], _row(b, BIG, SMALL)[None, :]
            here = _real(mask_k, k, K_STEPS, MASKED) & _real(mask_n, n, N_STEPS, MASKED)
            block = tl.load(weights + k * stride_k + n * stride_n, mask=here, other=0.0).to(tl.float32)
            blocks = blocks + (block,)
            most = tl.maximum(most, tl.max(tl.abs(block)))
    scale = 1.0
    if KIND == "f16":
        scale = tl.where(most > 1e-30, most, 1.0)  # the inverse is finite
    first = ()
    second = ()
    for index in tl.static_range(COUNT * COUNT):
        high, low = _halves(blocks[index] * (1.0 / scale), KIND)
        first = first + (high,)
        second = second + (low,)
    return first + second, scale


@triton.jit
def _tanh(query, keys, COUNT: tl.constexpr, NATIVE: tl.constexpr):
    """X of each tile."""
    x = ()
    for tile in tl.static_range(COUNT):
        x = x + (1.0 - 2.0 * reciprocal(query * keys[tile] + 1.0, NATIVE),)
    return x


@triton.jit
def _halves(x, KIND: tl.constexpr):
    """x as tensor cores take it: in bf16, or in two parts, of f16, for x in [-1, 1], or of TF32, that have 22 bits."""
    if KIND == "bf16":
        high = x.to(tl.bfloat16)
        low = high
    elif KIND == "f16":
        high = x.to(tl.float16)
        low = (x - high.to(tl.float32)).to(tl.float16)
    else:
        high = rounded(x)
        low = x - high
    return high, low


@triton.jit
def _product(a, b, total, NATIVE: tl.constexpr):
    if not NATIVE:  # the interpreter would multiply the bits of bf16
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, total, input_precision="tf32")


@triton.jit
def _dot(a, high, low, total, NATIVE: tl.constexpr, KIND: tl.constexpr):
    """total + a b, where b is given in `_halves`; of two parts, three products, which have float32's accuracy."""
    a_high, a_low = _halves(a, KIND)
    if KIND != "bf16":
        total = _product(a_low, high, total, NATIVE)
        total = _product(a_high, low, total, NATIVE)
    return _product(a_high, high, total, NATIVE)


@triton.jit
def _weigh(x, weights, COUNT: tl.constexpr, NATIVE: tl.constexpr, KIND: tl.constexpr):
    """X' W: one [channels, rows] per tile of one's own rows."""
    weighed = ()
    for b in tl.static_range(COUNT):
        total = tl.zeros([x[0].shape[0], weights[b].shape[1]], tl.float32)
        for a in tl.static_range(COUNT):
            total = _dot(x[a], weights[a * COUNT + b], weights[(COUNT + a) * COUNT + b], total, NATIVE, KIND)
        weighed = weighed + (total,)
    return weighed


@triton.jit
def vector_kernel(
    query_powers, key_powers, masks, weights, vectors,
    mask_b, stride, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, KIND: tl.constexpr,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """v_l = Σ_s X_i ∘ (X_j' W_l'), [3, B, L, D]. Grid: blocks of channels, videos, l."""
    video, l = tl.program_id(1).to(tl.int64), tl.program_id(2)
    i, j = _beside(l)
    channel = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    mask_i, mask_j = _pick(masks, i) + video * _pick(mask_b, i), _pick(masks, j) + video * _pick(mask_b, j)
    keys_i = _load_keys(key_powers + (3 * video + i) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    keys_j = _load_keys(key_powers + (3 * video + j) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    weight, scale = _load_weights(
        _pick(weights, l), 1, _pick(stride, l), mask_j, mask_i, _pick(steps, j), _pick(steps, i),
        COUNT, BIG, SMALL, MASKED, KIND,
    )  # fmt: skip
    out = vectors + (l * tl.num_programs(1) + video) * L * D + channel
    for word in range(0, L):
        query_i = tl.load(query_powers + (3 * (video * L + word) + i) * WIDTH + channel)
        query_j = tl.load(query_powers + (3 * (video * L + word) + j) * WIDTH + channel)
        weighed = _weigh(_tanh(query_j, keys_j, COUNT, NATIVE), weight, COUNT, NATIVE, KIND)
        x = _tanh(query_i, keys_i, COUNT, NATIVE)
        vector = tl.zeros([C, 1], tl.float32)
        for tile in tl.static_range(COUNT):
            vector += tl.sum(x[tile] * weighed[tile], axis=1, keep_dims=True)
        tl.store(out + word * D, vector * scale, mask=channel < D)


@triton.jit
def step_gradient_kernel(
    query_powers, key_powers, masks, weights, gradients, query_gradients, key_gradients,
    mask_b, stride, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, KIND: tl.constexpr,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, C: tl.constexpr, T,
):  # fmt: skip
    """∂/∂q = Σ_r G and ∂/∂k = Σ_w G, where G = (1 - X²) · g · (X_other' W_l) and g is the gradient of v_l.

    Parts, to be summed over the two l beside a modality: [2, 3, B, L, D] and [2, 3, B, T, D]. Grid: blocks of channels,
    videos, l and which of the two modalities beside it.
    """
    video, l = tl.program_id(1).to(tl.int64), tl.program_id(2) // 2
    i, j = _beside(l)
    second = tl.program_id(2) % 2
    own, other = tl.where(second == 0, i, j), tl.where(second == 0, j, i)
    row_stride = _pick(stride, l)
    stride_k, stride_n = tl.where(second == 0, 1, row_stride), tl.where(second == 0, row_stride, 1)
    channel = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    inside = channel < D
    mask_own = _pick(masks, own) + video * _pick(mask_b, own)
    mask_other = _pick(masks, other) + video * _pick(mask_b, other)
    keys = _load_keys(key_powers + (3 * video + own) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    other_keys = _load_keys(key_powers + (3 * video + other) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    own_steps = _pick(steps, own)
    weight, scale = _load_weights(
        _pick(weights, l), stride_k, stride_n, mask_other, mask_own, _pick(steps, other), own_steps,
        COUNT, BIG, SMALL, MASKED, KIND,
    )  # fmt: skip
    gradients += (l * tl.num_programs(1) + video) * L * D + channel
    part = (3 * tl.where(l == _beside(own)[0], 0, 1) + own) * tl.num_programs(1) + video
    sums = ()
    for tile in tl.static_range(COUNT):
        sums = sums + (tl.zeros([C, keys[tile].shape[1]], tl.float32),)
    for word in range(0, L):
        query = tl.load(query_powers + (3 * (video * L + word) + own) * WIDTH + channel)
        other_query = tl.load(query_powers + (3 * (video * L + word) + other) * WIDTH + channel)
        gradient = tl.load(gradients + word * D, mask=inside, other=0.0) * scale
        weighed = _weigh(_tanh(other_query, other_keys, COUNT, NATIVE), weight, COUNT, NATIVE, KIND)
        of_query = tl.zeros([C, 1], tl.float32)
        added = ()
        for tile in tl.static_range(COUNT):
            r = reciprocal(query * keys[tile] + 1.0, NATIVE)
            of_z = weighed[tile] * gradient * (r - r * r)  # 1 - X² = 4 (r - r²): the 4 comes last
            of_query += tl.sum(of_z, axis=1, keep_dims=True)
            added = added + (sums[tile] + of_z,)
        sums = added
        value = (4.0 * of_query).to(query_gradients.dtype.element_ty)
        tl.store(query_gradients + (part * L + word) * D + channel, value, mask=inside)
    for tile in tl.static_range(COUNT):
        row = _row(tile, BIG, SMALL)[None, :]
        value = (4.0 * sums[tile]).to(key_gradients.dtype.element_ty)
        tl.store(key_gradients + (part * T + row) * D + channel, value, mask=(row < own_steps) & inside)


@triton.jit
def weight_gradient_kernel(
    query_powers, key_powers, masks, gradients, parts,
    mask_b, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    MASKED: tl.constexpr, NATIVE: tl.constexpr, KIND: tl.constexpr,
    COUNT: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr, C: tl.constexpr, T, ROWS: tl.constexpr,
):  # fmt: skip
    """∂/∂W_l = Σ_{w,d} (g ∘ X_i) X_j': parts [B · blocks, 3, T, T], to be summed. Grid: as in `vector_kernel`."""
    video, l = tl.program_id(1).to(tl.int64), tl.program_id(2)
    i, j = _beside(l)
    across = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    channel = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    row = tl.arange(0, ROWS)[:, None]
    pointers = key_powers + (3 * video + i) * (WIDTH * HEIGHT) + place(across, row, HEIGHT)
    keys_i = tl.load(pointers, mask=row < HEIGHT, other=0.0)  # [rows, channels]
    keys_j = _load_keys(key_powers + (3 * video + j) * (WIDTH * HEIGHT), HEIGHT, channel, COUNT, BIG, SMALL)
    gradients += (l * tl.num_programs(1) + video) * L * D + across
    totals = ()
    for tile in tl.static_range(COUNT):
        totals = totals + (tl.zeros([ROWS, keys_j[tile].shape[1]], tl.float32),)
    for word in range(0, L):
        query_i = tl.load(query_powers + (3 * (video * L + word) + i) * WIDTH + across)
        query_j = tl.load(query_powers + (3 * (video * L + word) + j) * WIDTH + channel)
        gradient = tl.load(gradients + word * D, mask=across < D, other=0.0)
        x_i = 1.0 - 2.0 * reciprocal(query_i * keys_i + 1.0, NATIVE)
        x_j = _tanh(query_j, keys_j, COUNT, NATIVE)
        added = ()
        for tile in tl.static_range(COUNT):
            high, low = _halves(x_j[tile], KIND)
            zeros = tl.zeros([ROWS, high.shape[1]], tl.float32)  # not the totals: tensor cores cut off what they add
            added = added + (totals[tile] + _dot(x_i * gradient, high, low, zeros, NATIVE, KIND),)
        totals = added
    steps_i, steps_j = _pick(steps, i), _pick(steps, j)
    block = (video * tl.num_programs(0) + tl.program_id(0)) * 3 + l
    real_i = _real(_pick(masks, i) + video * _pick(mask_b, i), row, steps_i, MASKED)
    for tile in tl.static_range(COUNT):
        column = _row(tile, BIG, SMALL)[None, :]
        real = real_i & _real(_pick(masks, j) + video * _pick(mask_b, j), column, steps_j, MASKED)
        here = (row < steps_i) & (column < steps_j)
        tl.store(parts + (block * T + row) * T + column, tl.where(real, totals[tile], 0.0), mask=here)
