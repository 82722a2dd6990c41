# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""Gradients of one group's scores, without writing X to memory.

A program owns some channels of a video and goes through the words: sums over words stay in registers. What it loads
within the loop has a pointer for every element of the tile, although channels read the same: each thread then loads
what it needs, several rows at once, and hands nothing around.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hoca.ops.fused.pieces import (
    load_factors,
    load_inside,
    load_real,
    load_vectors,
    pool,
    product,
    reciprocal,
    tanh,
    zeros,
)
from hoca.ops.fused.powers import place


@triton.jit
def _load_word(
    queries, gradients, word, channel, row, query_l, steps, D,
    N: tl.constexpr, EVEN: tl.constexpr, FULL: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """All that a backward program needs of a word: gradients of the scores [1, channels, rows], and queries."""
    loaded = ()
    of_queries = ()
    for i in tl.static_range(N):
        of_queries = of_queries + (load_inside(queries[i] + word * query_l[i] + channel, channel, D, EVEN),)
        for j in tl.static_range(TILES):
            step = j * ROWS + row + channel * 0
            pointers = gradients[i] + word * steps[i] + step
            if FULL:
                loaded = loaded + (tl.load(pointers),)
            else:
                loaded = loaded + (tl.load(pointers, mask=step < steps[i], other=0.0),)
    return loaded, of_queries


@triton.jit
def _load_keys(
    keys, real, video, channel, row, key_b, key_t, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    N: tl.constexpr, HALF: tl.constexpr, EVEN: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Those of a program's channels, [1, channels, rows]; what is no step is 0."""
    loaded = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            step = row + j * ROWS
            if HALF:
                here = real[i * TILES + j]
                if not EVEN:
                    here = here & (channel < D)
                key = keys[i] + video * key_b[i] + (step * key_t[i] + channel)
                loaded = loaded + (tl.load(key, mask=here, other=0.0).to(tl.float32),)
            else:
                key = keys[0] + (video * N + i) * (WIDTH * HEIGHT) + place(channel, step, HEIGHT)
                loaded = loaded + (tl.load(key),)
    return loaded


@triton.jit
def backward_kernel(
    queries, keys, masks, gradients, factors, channels,
    query_gradients, key_gradients, factor_gradients, channel_gradients,
    query_b, query_l, key_b, key_t, mask_b, factor_k, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    N: tl.constexpr, K: tl.constexpr, PER_WORD: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    HALF: tl.constexpr, EVEN: tl.constexpr, FULL: tl.constexpr, AHEAD: tl.constexpr,
    TILES: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """∂/∂q_i = Σ_r G_i and ∂/∂k_i = Σ_w G_i, where G = (1 - X²) · ∂/∂X and X is computed again.

    ∂/∂X_i[r] = g_i[r] · v_i + Σ_k factor_i[k, r] · ∂/∂pooled_i[k], where g are the gradients of the scores and v_i is
    the vector that X_i meets. In the padding g is 0, as given, and so are the factors. If HALF, queries [B, L, D] and
    keys [B, T_i, D] are as they are; otherwise they are powers, as `powers` lays them out, and 1 - X² = 4 (r - r²):
    the 4 comes last. Grid: blocks of channels, videos.
    factor_gradients [B, blocks, K, ΣT] and channel_gradients [B, D] are parts, to be summed over videos and blocks;
    PER_WORD they are [B, L, D] and whole. FULL: every row is a step of each modality. HALF, EVEN and AHEAD: as in
    the forward kernel, AHEAD of words.
    """
    SLOPE: tl.constexpr = 1.0 if HALF else 4.0
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)[None, :, None]
    row = tl.arange(0, ROWS)[None, None, :]
    inside = channel < D
    real = load_real(masks, mask_b, video, row, steps, N, TILES, ROWS, MASKED)
    factor = load_factors(factors, factor_k, row, real, N, K, TILES, ROWS)
    channel_weights = ()
    if not PER_WORD:
        channel_weights = load_vectors(channels, video, 0, L, channel, D, N, False, EVEN)
    key = _load_keys(
        keys, real, video, channel, row, key_b, key_t, D, WIDTH, HEIGHT, N, HALF, EVEN, TILES, ROWS
    )  # fmt: skip

    of_video = ()
    queries_of_video = ()
    gradients_of_video = ()
    for i in tl.static_range(N):
        of_video = of_video + (query_gradients[i] + video * L * D,)
        queries_of_video = queries_of_video + (queries[i] + video * query_b[i],)
        gradients_of_video = gradients_of_video + (gradients[i] + video * L * steps[i],)
    key_gradient = zeros(N * TILES, [1, LANES, ROWS])
    factor_gradient = zeros(K * N * TILES, [1, LANES, ROWS])
    channel_gradient = zeros(N, [1, LANES, 1])
    if AHEAD:
        next_loaded, next_query = _load_word(
            queries_of_video, gradients_of_video, 0, channel, row, query_l, steps, D, N, EVEN, FULL, TILES, ROWS
        )
    for word in range(0, L):
        if AHEAD:
            loaded, query = next_loaded, next_query
            next_loaded, next_query = _load_word(
                queries_of_video, gradients_of_video, tl.minimum(word + 1, L - 1), channel, row, query_l, steps, D,
                N, EVEN, FULL, TILES, ROWS,
            )  # fmt: skip
        else:
            loaded, query = _load_word(
                queries_of_video, gradients_of_video, word, channel, row, query_l, steps, D, N, EVEN, FULL, TILES, ROWS
            )  # fmt: skip
        x = ()
        slope = ()  # 1 - X², or a quarter of it
        gradient = ()
        for i in tl.static_range(N):
            for j in tl.static_range(TILES):
                if HALF:
                    y = tanh(query[i] + key[i * TILES + j], NATIVE)
                    slope = slope + (1.0 - y * y,)
                    x = x + (y,)
                else:
                    r = reciprocal(query[i] * key[i * TILES + j] + 1.0, NATIVE)
                    slope = slope + (r - r * r,)
                    x = x + (1.0 - 2.0 * r,)
                gradient = gradient + (loaded[i * TILES + j].to(tl.float32),)
        summed = pool(gradient, 0, x, N, TILES)  # the gradient of v_l

        vectors = channel_weights
        if PER_WORD:
            vectors = load_vectors(channels, video, word, L, channel, D, N, True, EVEN)
        correlation = ()
        pooled_gradients = ()
        if K > 0:
            correlation = zeros(N, [1, LANES, 1])
            for k in tl.static_range(K):
                pooled = pool(factor, k * N * TILES, x, N, TILES)
                added = ()
                for l in tl.static_range(N):
                    added = added + (correlation[l] + product(pooled, l, l, N),)
                correlation = added
                for i in tl.static_range(N):
                    of_pooled = tl.zeros([1, LANES, 1], tl.float32)
                    for l in tl.static_range(N):
                        if l != i:
                            of_pooled += summed[l] * channel_weights[l] * product(pooled, l, i, N)
                    pooled_gradients = pooled_gradients + (of_pooled,)
            vectors = ()
            for l in tl.static_range(N):
                vectors = vectors + (channel_weights[l] * correlation[l],)
        added = ()
        for l in tl.static_range(N):
            of_channel = summed[l]
            if K > 0:
                of_channel *= correlation[l]
            if PER_WORD:
                tl.store(channel_gradients[l] + (video * L + word) * D + channel, of_channel, mask=inside)
            added = added + (channel_gradient[l] + of_channel,)
        channel_gradient = added

        of_keys = ()
        for i in tl.static_range(N):
            of_query = tl.zeros([1, LANES, ROWS], tl.float32)
            for j in tl.static_range(TILES):
                of_x = gradient[i * TILES + j] * vectors[i]
                for k in tl.static_range(K):
                    of_x += factor[(k * N + i) * TILES + j] * pooled_gradients[k * N + i]
                of_query += of_x * slope[i * TILES + j]
                of_keys = of_keys + (key_gradient[i * TILES + j] + of_x * slope[i * TILES + j],)
            pointers = of_video[i] + word * D + channel
            value = SLOPE * tl.sum(of_query, axis=2, keep_dims=True)
            tl.store(pointers, value.to(query_gradients[i].dtype.element_ty), mask=inside)
        key_gradient = of_keys

        of_factors = ()
        for k in tl.static_range(K):
            for i in tl.static_range(N):
                for j in tl.static_range(TILES):
                    part = factor_gradient[(k * N + i) * TILES + j]
                    of_factors = of_factors + (part + x[i * TILES + j] * pooled_gradients[k * N + i],)
        factor_gradient = of_factors

    block = video * tl.num_programs(0) + tl.program_id(0)
    all_steps = 0
    for i in tl.static_range(N):
        all_steps += steps[i]
    before = 0
    for i in tl.static_range(N):
        if not PER_WORD:
            tl.store(channel_gradients[i] + video * D + channel, channel_gradient[i], mask=inside)
        for j in tl.static_range(TILES):
            step = row + j * ROWS
            pointers = key_gradients[i] + (video * steps[i] + step) * D + channel
            value = (SLOPE * key_gradient[i * TILES + j]).to(key_gradients[i].dtype.element_ty)
            tl.store(pointers, value, mask=(step < steps[i]) & inside)
            for k in tl.static_range(K):
                of_factor = tl.sum(factor_gradient[(k * N + i) * TILES + j], axis=1, keep_dims=True)
                of_factor = tl.where(real[i * TILES + j], of_factor, 0.0)
                pointers = factor_gradients + (block * K + k) * all_steps + before + step
                tl.store(pointers, of_factor, mask=step < steps[i])
        before += steps[i]
