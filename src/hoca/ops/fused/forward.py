# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""Scores of one group, without writing X to memory.

A program owns some words of a video and goes through the channels: sums over channels stay in registers. Its warps
share the channels, and a warp has all steps of those it has, so that no sum over steps crosses warps. Keys are loaded
once for all words of the program.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hoca.ops.fused.pairs import pair_place
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
def _load_block(
    queries, keys, channels, query_b, query_l, key_b, key_t, steps, video, line, lane, row, first, L, D,
    WIDTH: tl.constexpr, HEIGHT: tl.constexpr, N: tl.constexpr, PER_WORD: tl.constexpr, PAIRED: tl.constexpr,
    DIRECT: tl.constexpr, EVEN: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """All that a program needs of some channels: keys [1, channels, rows], queries, and what X_l meets."""
    PAIRS: tl.constexpr = HEIGHT // 2
    of_keys = ()
    of_queries = ()
    channel = first + lane
    for i in tl.static_range(N):
        query = queries[i] + video * query_b[i] + line.to(tl.int64) * query_l[i] + channel
        of_queries = of_queries + (load_inside(query, channel, D, EVEN),)
        if PAIRED:
            for j in tl.static_range(TILES // 2):
                key = keys[0] + video * (N * WIDTH * PAIRS) + first * PAIRS + pair_place(lane, row, 0, HEIGHT)
                of_keys = of_keys + (tl.load(key + (i * WIDTH * PAIRS + 4 * j * ROWS)),)
        else:
            for j in tl.static_range(TILES):
                if DIRECT:
                    step = tl.minimum(row + j * ROWS, steps[i] - 1)
                    key = keys[i] + video * key_b[i] + (step * key_t[i] + channel)
                    of_keys = of_keys + (load_inside(key, channel, D, EVEN),)
                else:
                    key = keys[0] + video * (N * WIDTH * HEIGHT) + first * HEIGHT + place(lane, row, HEIGHT)
                    of_keys = of_keys + (tl.load(key + (i * WIDTH * HEIGHT + 4 * j * ROWS)),)
    return of_keys, of_queries, load_vectors(channels, video, line, L, channel, D, N, PER_WORD, EVEN)


@triton.jit
def forward_kernel(
    queries, keys, masks, scores, factors, channels,
    query_b, query_l, key_b, key_t, mask_b, factor_k, steps, L, D, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
    N: tl.constexpr, K: tl.constexpr, PER_WORD: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    HALF: tl.constexpr, DIRECT: tl.constexpr, EVEN: tl.constexpr, AHEAD: tl.constexpr, UNROLL: tl.constexpr,
    WORDS: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """scores_l[w, r] = Σ_d X_l[w, r, d] · channel_l[d] · Σ_k Π_{i≠l} Σ_s factor_i[k, s] X_i[w, s, d]   (eq. 3, 14-17)

    X = tanh(q + k) costs one special-function operation. If HALF, that is the GPU's own tanh, with an error of 2^-11.
    Otherwise queries and keys are e^{2q} and e^{2k}, and X = 1 - 2 r, where r = 1 / (1 + e^{2q} e^{2k}) has nearly the
    accuracy of float32; sums are then taken over r, and X is never made: Σ f X = Σ f - 2 Σ f r. Below, y is X or r.

    K = 0 is without the sum over k: unary attention, or with PER_WORD whatever vectors [B, L, D] the channels are.
    DIRECT: keys [B, T_i, D] are read as they are; otherwise as `pairs` (if HALF) or `powers` lays them out, all in the
    first of `keys`.
    EVEN: LANES divide D. AHEAD: channels are loaded while those before are worked on, which takes registers.
    Grid: blocks of words, videos, blocks of rows (one if K > 0).
    """
    PAIRED: tl.constexpr = HALF and not DIRECT  # keys are bf16, two in a word
    SLOPE: tl.constexpr = 1.0 if HALF else -2.0  # X = SLOPE · y, and 1 more unless HALF
    video = tl.program_id(1).to(tl.int64)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)[:, None, None]
    line = tl.minimum(word, L - 1)
    lane = tl.arange(0, LANES)[None, :, None]
    row = tl.program_id(2) * (TILES * ROWS) + tl.arange(0, ROWS)[None, None, :]
    real = load_real(masks, mask_b, video, row, steps, N, TILES, ROWS, MASKED)
    factor = load_factors(factors, factor_k, row, real, N, K, TILES, ROWS)
    weight = ()
    whole = ()  # the weights' sums over the steps
    for k in tl.static_range(K):
        for i in tl.static_range(N):
            total = tl.zeros([1, 1, ROWS], tl.float32)
            for j in tl.static_range(TILES):
                total += factor[(k * N + i) * TILES + j]
                weight = weight + (SLOPE * factor[(k * N + i) * TILES + j],)
            whole = whole + (tl.sum(total, axis=2, keep_dims=True),)

    total = zeros(N * TILES, [WORDS, LANES, ROWS])
    met = zeros(N, [WORDS, LANES, 1])
    last = (D if EVEN else WIDTH) - LANES
    if AHEAD:
        next_key, next_query, next_given = _load_block(
            queries, keys, channels, query_b, query_l, key_b, key_t, steps, video, line, lane, row, 0, L, D,
            WIDTH, HEIGHT, N, PER_WORD, PAIRED, DIRECT, EVEN, TILES, ROWS,
        )  # fmt: skip
    for first in tl.range(0, D, LANES, loop_unroll_factor=UNROLL):
        if AHEAD:
            key, query, given = next_key, next_query, next_given
            next_key, next_query, next_given = _load_block(
                queries, keys, channels, query_b, query_l, key_b, key_t, steps, video, line, lane, row,
                tl.minimum(first + LANES, last), L, D, WIDTH, HEIGHT, N, PER_WORD, PAIRED, DIRECT, EVEN, TILES, ROWS,
            )  # fmt: skip
        else:
            key, query, given = _load_block(
                queries, keys, channels, query_b, query_l, key_b, key_t, steps, video, line, lane, row, first, L, D,
                WIDTH, HEIGHT, N, PER_WORD, PAIRED, DIRECT, EVEN, TILES, ROWS,
            )  # fmt: skip
        y = ()
        for i in tl.static_range(N):
            for j in tl.static_range(TILES):
                if PAIRED:
                    both = key[(i * TILES + j) // 2]
                    half = both << 16 if j % 2 == 0 else both & -65536  # bf16 is the upper half of float32
                    y = y + (tanh(query[i] + half.to(tl.float32, bitcast=True), NATIVE),)
                elif HALF:
                    y = y + (tanh(query[i] + key[i * TILES + j], NATIVE),)
                else:
                    y = y + (reciprocal(query[i] * key[i * TILES + j] + 1.0, NATIVE),)

        vectors = given
        if K > 0:
            correlation = zeros(N, [1, 1, 1])
            for k in tl.static_range(K):
                parts = pool(weight, k * N * TILES, y, N, TILES)
                pooled = ()
                for i in tl.static_range(N):
                    pooled = pooled + (parts[i] if HALF else whole[k * N + i] + parts[i],)  # eq. 14
                added = ()
                for l in tl.static_range(N):
                    added = added + (correlation[l] + product(pooled, l, l, N),)
                correlation = added  # eq. 16: B_l
            scaled = ()
            for l in tl.static_range(N):
                scaled = scaled + (given[l] * correlation[l],)
            vectors = scaled

        added = ()
        sums = ()
        for l in tl.static_range(N):
            sums = sums + (met[l] if HALF else met[l] + vectors[l],)
            for j in tl.static_range(TILES):
                added = added + (total[l * TILES + j] + y[l * TILES + j] * vectors[l],)
        total = added
        met = sums

    real = load_real(masks, mask_b, video, row, steps, N, TILES, ROWS, MASKED)  # again: kept, it would take registers
    for l in tl.static_range(N):
        for j in tl.static_range(TILES):
            score = tl.sum(met[l] + SLOPE * total[l * TILES + j], axis=1, keep_dims=True)
            score = tl.where(real[l * TILES + j], score, float("-inf")).to(scores[l].dtype.element_ty)
            here = (word < L) & (row + j * ROWS < steps[l])
            tl.store(scores[l] + (video * L + word) * steps[l] + row + j * ROWS, score, mask=here)
