# mypy: ignore-errors
# ruff: noqa: RUF005, B007
# Triton's language has no types to annotate, builds tuples by + alone, and counts in static loops.
"""The two Triton kernels over one group: scores, and their gradients. Neither writes X to memory.

The steps of all modalities of the group lie under each other as the rows of one tile [words, rows, channels]: a group
of 80 + 80 + 80 steps fills 240 of 256 rows, where three tiles of 128 would waste a third. Everything between X and the
scores is local to a word and a channel, so one pass over X is enough:

- forward: a program owns some words of a video and goes through the channels; sums over channels stay in registers;
- backward: a program owns some channels of a video and goes through the words; sums over words stay in registers.

Every output element has one program that owns it: no atomics, the same bits every time.
"""

from __future__ import annotations

import triton
import triton.language as tl

TWICE_LOG2E = tl.constexpr(2.8853900817779268)  # e^{2x} = 2^{x · 2 log2 e}
LARGEST_EXPONENT = tl.constexpr(124.0)  # of a power of two that is finite and whose inverse is not denormal


@triton.jit
def _powers(x):
    """e^{2x}, kept between 2^-124 and 2^124: a product of two is never 0 · ∞."""
    exponent = x * TWICE_LOG2E
    return tl.exp2(tl.minimum(tl.maximum(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT))


@triton.jit
def _reciprocal(x, NATIVE: tl.constexpr):
    """One special-function operation, where `/` would be several instructions more; the interpreter has no assembly."""
    if NATIVE:
        r = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        r = 1.0 / x
    return r


@triton.jit
def _segments(rows, steps, N: tl.constexpr):
    """The modality of each row; N for the rows below the last modality."""
    segment = tl.zeros_like(rows)
    end = 0
    for i in tl.static_range(N):
        end += steps[i]
        segment += (rows >= end).to(tl.int32)
    return segment


@triton.jit
def _real_rows(masks, mask_b, video, rows, segment, steps, N: tl.constexpr, MASKED: tl.constexpr):
    real = segment < N
    if MASKED:
        real = segment < 0
        start = 0
        for i in tl.static_range(N):
            pointers = masks[i] + video * mask_b[i] + (rows - start)
            real = real | (tl.load(pointers, mask=segment == i, other=0) != 0)
            start += steps[i]
    return real


@triton.jit
def _by_row(values, segment, N: tl.constexpr):
    """values[i] [words, channels] → [words, rows, channels]: each row has those of its modality."""
    spread = values[0][:, None, :]
    for i in tl.static_range(1, N):
        spread = tl.where((segment == i)[None, :, None], values[i][:, None, :], spread)
    return spread


@triton.jit
def _sum_segment(x, weight, segment, i: tl.constexpr, N: tl.constexpr):
    """Σ over the rows of modality i of weight · x: [words, channels]."""
    if N > 1:
        weight = tl.where((segment == i)[None, :, None], weight, 0.0)
    return tl.sum(weight * x, axis=1)


@triton.jit
def _load_keys(keys, key_b, key_t, video, rows, segment, real, steps, channel, D, N: tl.constexpr):
    """[rows, channels], 0 in the padding, whatever lies there."""
    key = tl.zeros([rows.shape[0], channel.shape[0]], tl.float32)
    start = 0
    for i in tl.static_range(N):
        step = (rows - start).to(tl.int64)
        pointers = keys[i] + video * key_b[i] + step[:, None] * key_t[i] + channel[None, :]
        here = (real & (segment == i))[:, None] & (channel < D)[None, :]
        key += tl.load(pointers, mask=here, other=0.0).to(tl.float32)
        start += steps[i]
    return key


@triton.jit
def _load_queries(queries, query_b, query_l, video, word, L, channel, D, N: tl.constexpr):
    """One [words, channels] per modality."""
    loaded = ()
    here = (word < L)[:, None] & (channel < D)[None, :]
    for i in tl.static_range(N):
        pointers = queries[i] + video * query_b[i] + word.to(tl.int64)[:, None] * query_l[i] + channel[None, :]
        loaded = loaded + (tl.load(pointers, mask=here, other=0.0).to(tl.float32),)
    return loaded


@triton.jit
def _load_channels(channels, channel, D, N: tl.constexpr):
    """One [1, channels] per modality."""
    loaded = ()
    for i in tl.static_range(N):
        loaded = loaded + (tl.load(channels[i] + channel, mask=channel < D, other=0.0).to(tl.float32)[None, :],)
    return loaded


@triton.jit
def _load_factors(factors, factor_k, rows, segment, real, steps, N: tl.constexpr, K: tl.constexpr):
    """One [1, rows, 1] per rank, 0 in the padding: no padded step is pooled."""
    loaded = ()
    for k in tl.static_range(K):
        factor = tl.zeros([rows.shape[0]], tl.float32)
        start = 0
        for i in tl.static_range(N):
            pointers = factors[i] + k * factor_k[i] + (rows - start)
            factor += tl.load(pointers, mask=real & (segment == i), other=0.0).to(tl.float32)
            start += steps[i]
        loaded = loaded + (factor[None, :, None],)
    return loaded


@triton.jit
def _others(pooled, left_out: tl.constexpr, also: tl.constexpr, N: tl.constexpr):
    """The product of the pooled vectors of all modalities but one or two."""
    product = tl.full(pooled[0].shape, 1.0, tl.float32)
    for i in tl.static_range(N):
        if i != left_out and i != also:
            product *= pooled[i]
    return product


@triton.jit
def _vectors(x, factors, channels, segment, N: tl.constexpr, K: tl.constexpr):
    """channel_l · B_l of each modality (eq. 14-16), [words, channels]; with K = 0 the channel itself (eq. 3)."""
    vectors = channels
    if K > 0:
        vectors = ()
        for l in tl.static_range(N):
            vectors = vectors + (tl.zeros([x.shape[0], x.shape[2]], tl.float32),)
        for k in tl.static_range(K):
            pooled = ()
            for i in tl.static_range(N):
                pooled = pooled + (_sum_segment(x, factors[k], segment, i, N),)  # eq. 14
            added = ()
            for l in tl.static_range(N):
                added = added + (vectors[l] + _others(pooled, l, l, N),)  # eq. 16
            vectors = added
        scaled = ()
        for l in tl.static_range(N):
            scaled = scaled + (vectors[l] * channels[l],)
        vectors = scaled
    return vectors


@triton.jit
def forward_kernel(
    queries, keys, masks, scores, factors, channels,
    query_b, query_l, key_b, key_t, mask_b, factor_k, steps, L, D,
    N: tl.constexpr, K: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    WORDS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """scores_l[w, r] = Σ_d X_l[w, r, d] · channel_l[d] · Σ_k Π_{i≠l} Σ_s factor_i[k, s] X_i[w, s, d]   (eq. 3, 14-17)

    K = 0 is unary attention: without the sum over k. Grid: blocks of words, videos, blocks of rows (one if K > 0).
    """
    video = tl.program_id(1).to(tl.int64)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    rows = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    segment = _segments(rows, steps, N)
    real = _real_rows(masks, mask_b, video, rows, segment, steps, N, MASKED)
    factor = _load_factors(factors, factor_k, rows, segment, real, steps, N, K)
    first_word = tl.program_id(0) * WORDS + tl.arange(0, 1)

    total = tl.zeros([WORDS, ROWS, LANES], tl.float32)
    for first in range(0, D, LANES):
        channel = first + tl.arange(0, LANES)
        centre = _load_queries(queries, query_b, query_l, video, first_word, L, channel, D, N)
        query = _load_queries(queries, query_b, query_l, video, word, L, channel, D, N)
        key = _load_keys(keys, key_b, key_t, video, rows, segment, real, steps, channel, D, N)
        by_key = _powers(key[None] + _by_row(centre, segment, N))
        by_query = ()
        for i in tl.static_range(N):
            by_query = by_query + (_powers(query[i] - centre[i]),)
        x = 1.0 - 2.0 * _reciprocal(_by_row(by_query, segment, N) * by_key + 1.0, NATIVE)
        vectors = _vectors(x, factor, _load_channels(channels, channel, D, N), segment, N, K)
        total += x * _by_row(vectors, segment, N)

    score = tl.sum(total, axis=2)  # [words, rows]
    score = tl.where(real[None, :], score, float("-inf"))
    start = 0
    for i in tl.static_range(N):
        line = (video * L + word).to(tl.int64) * steps[i]
        pointers = scores[i] + line[:, None] + (rows - start)[None, :]
        tl.store(pointers, score.to(scores[i].dtype.element_ty), mask=(word < L)[:, None] & (segment == i)[None, :])
        start += steps[i]


@triton.jit
def backward_kernel(
    queries, keys, masks, gradients, factors, channels,
    query_gradients, key_gradients, factor_gradients, channel_gradients,
    query_b, query_l, key_b, key_t, mask_b, factor_k, steps, L, D,
    N: tl.constexpr, K: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """∂/∂q_i = Σ_r G_i, ∂/∂k_i = Σ_w G_i with G = (1 - X²) · ∂/∂X, X computed again.

    ∂/∂X_i[r] = g_i[r] · v_i + Σ_k factor_i[k, r] · ∂/∂pooled_i[k], where g are the gradients of the scores and v_i the
    vector that X_i meets. Grid: blocks of channels, videos. factor_gradients [B, blocks, K, ΣT] and channel_gradients
    [B, N, D] are parts, to be summed over videos and blocks.
    """
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)
    rows = tl.arange(0, ROWS)
    segment = _segments(rows, steps, N)
    real = _real_rows(masks, mask_b, video, rows, segment, steps, N, MASKED)
    factor = _load_factors(factors, factor_k, rows, segment, real, steps, N, K)
    channel_weights = _load_channels(channels, channel, D, N)
    centre = _load_queries(queries, query_b, query_l, video, tl.arange(0, 1), L, channel, D, N)
    key = _load_keys(keys, key_b, key_t, video, rows, segment, real, steps, channel, D, N)
    by_key = _powers(key[None] + _by_row(centre, segment, N))  # [1, rows, channels]

    key_gradient = tl.zeros([1, ROWS, LANES], tl.float32)
    factor_gradient = ()
    for k in tl.static_range(K):
        factor_gradient = factor_gradient + (tl.zeros([1, ROWS, LANES], tl.float32),)
    channel_gradient = ()
    for l in tl.static_range(N):
        channel_gradient = channel_gradient + (tl.zeros([1, LANES], tl.float32),)

    for w in range(0, L):
        word = w + tl.arange(0, 1)
        query = _load_queries(queries, query_b, query_l, video, word, L, channel, D, N)
        by_query = ()
        for i in tl.static_range(N):
            by_query = by_query + (_powers(query[i] - centre[i]),)
        r = _reciprocal(_by_row(by_query, segment, N) * by_key + 1.0, NATIVE)
        x = 1.0 - 2.0 * r

        gradient = tl.zeros([ROWS], tl.float32)
        start = 0
        for i in tl.static_range(N):
            pointers = gradients[i] + (video * L + w) * steps[i] + (rows - start)
            gradient += tl.load(pointers, mask=real & (segment == i), other=0.0).to(tl.float32)
            start += steps[i]
        gradient = gradient[None, :, None]
        met = ()  # Σ_r g_l[r] X_l[r, d]: the gradient of v_l
        for l in tl.static_range(N):
            met = met + (_sum_segment(x, gradient, segment, l, N),)

        if K == 0:
            added = ()
            for l in tl.static_range(N):
                added = added + (channel_gradient[l] + met[l],)
            channel_gradient = added
            x_gradient = gradient * _by_row(channel_weights, segment, N)
        else:
            vectors = ()
            for l in tl.static_range(N):
                vectors = vectors + (tl.zeros([1, LANES], tl.float32),)
            x_gradient = tl.zeros([1, ROWS, LANES], tl.float32)
            parts = ()
            for k in tl.static_range(K):
                pooled = ()
                for i in tl.static_range(N):
                    pooled = pooled + (_sum_segment(x, factor[k], segment, i, N),)
                added = ()
                for l in tl.static_range(N):
                    added = added + (vectors[l] + _others(pooled, l, l, N),)
                vectors = added
                pooled_gradient = ()
                for i in tl.static_range(N):
                    total = tl.zeros([1, LANES], tl.float32)
                    for l in tl.static_range(N):
                        if l != i:
                            total += met[l] * channel_weights[l] * _others(pooled, l, i, N)
                    pooled_gradient = pooled_gradient + (total,)
                spread = _by_row(pooled_gradient, segment, N)
                x_gradient += factor[k] * spread
                parts = parts + (factor_gradient[k] + spread * x,)
            factor_gradient = parts
            added = ()
            scaled = ()
            for l in tl.static_range(N):
                added = added + (channel_gradient[l] + met[l] * vectors[l],)
                scaled = scaled + (vectors[l] * channel_weights[l],)
            channel_gradient = added
            x_gradient += gradient * _by_row(scaled, segment, N)

        z_gradient = tl.where(real[None, :, None], x_gradient * (4.0 * r * (1.0 - r)), 0.0)  # 1 - X² = 4 r (1 - r)
        key_gradient += z_gradient
        line = (video * L + word).to(tl.int64) * D
        for i in tl.static_range(N):
            pointers = query_gradients[i] + line[:, None] + channel[None, :]
            summed = _sum_segment(z_gradient, 1.0, segment, i, N)
            tl.store(pointers, summed.to(query_gradients[i].dtype.element_ty), mask=(channel < D)[None, :])

    start = 0
    for i in tl.static_range(N):
        line = (video * steps[i] + (rows - start)).to(tl.int64) * D
        pointers = key_gradients[i] + line[None, :, None] + channel[None, None, :]
        here = (segment == i)[None, :, None] & (channel < D)[None, None, :]
        tl.store(pointers, key_gradient.to(key_gradients[i].dtype.element_ty), mask=here)
        line_of_channels = (video * N + i) * D + channel
        tl.store(channel_gradients + line_of_channels[None, :], channel_gradient[i], mask=(channel < D)[None, :])
        start += steps[i]
    block = video * tl.num_programs(0) + tl.program_id(0)
    for k in tl.static_range(K):
        pointers = factor_gradients + (block * K + k) * start + rows
        summed = tl.where(real[None, :], tl.sum(factor_gradient[k], axis=2), 0.0)
        tl.store(pointers[None, :], summed, mask=(segment < N)[None, :])
