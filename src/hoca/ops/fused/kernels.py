# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""The two Triton kernels over one group: scores, and their gradients. Neither writes X to memory.

Everything between X and the scores is local to a word and a channel, so one pass over X is enough:

- forward: a program owns some words of a video and goes through the channels; sums over channels stay in registers;
- backward: a program owns some channels of a video and goes through the words; sums over words stay in registers.

Every output element has one program that owns it: no atomics, the same bits every time. The steps of each modality
are cut into TILES tiles of ROWS, and a value per tile is a tuple of N · TILES tensors [words, rows, channels]: which
modality a row belongs to is known when the kernel is compiled, and 80 steps need no tile of 128.
"""

from __future__ import annotations

import triton
import triton.language as tl

TWICE_LOG2E = tl.constexpr(2.8853900817779268)  # e^{2x} = 2^{x · 2 log2 e}
LARGEST_EXPONENT = tl.constexpr(124.0)  # so that a power is finite


@triton.jit
def _powers(x, shift):
    """e^{2(x + shift)}, at most 2^124: a product of two is never 0 · ∞."""
    return tl.exp2(tl.minimum((x + shift) * TWICE_LOG2E, LARGEST_EXPONENT))


@triton.jit
def _reciprocal(x, NATIVE: tl.constexpr):
    """One special-function operation, where `/` would be several instructions more; the interpreter has no assembly."""
    if NATIVE:
        r = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        r = 1.0 / x
    return r


@triton.jit
def _zeros(COUNT: tl.constexpr, SHAPE: tl.constexpr):
    zeros = ()
    for _ in tl.static_range(COUNT):
        zeros = zeros + (tl.zeros(SHAPE, tl.float32),)
    return zeros


@triton.jit
def _load_real(masks, mask_b, video, first_row, steps, N: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip # noqa: E501
    """Which rows are steps of the video: one [rows] per tile."""
    real = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            row = first_row + j * ROWS + tl.arange(0, ROWS)
            here = row < steps[i]
            if MASKED:
                here = tl.load(masks[i] + video * mask_b[i] + row, mask=here, other=0) != 0
            real = real + (here,)
    return real


@triton.jit
def _load_steps(tables, lines, written, first_row, real, N: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr):
    """One value per step, of the lines [words] of tables[i], 0 in the padding: one [words, rows, 1] per tile."""
    loaded = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            row = first_row + j * ROWS + tl.arange(0, ROWS)
            here = written[:, None] & real[i * TILES + j][None, :]
            value = tl.load(tables[i] + lines[i][:, None] + row[None, :], mask=here, other=0.0).to(tl.float32)
            loaded = loaded + (value[:, :, None],)
    return loaded


@triton.jit
def _load_factors(factors, factor_k, first_row, real, N: tl.constexpr, K: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip # noqa: E501
    """As `_load_steps`, of each rank in turn."""
    loaded = ()
    for k in tl.static_range(K):
        lines = ()
        for i in tl.static_range(N):
            lines = lines + (tl.full([1], k, tl.int32) * factor_k[i],)
        loaded = loaded + _load_steps(factors, lines, tl.full([1], True, tl.int1), first_row, real, N, TILES, ROWS)
    return loaded


@triton.jit
def _load_queries(queries, query_b, query_l, video, word, L, channel, D, N: tl.constexpr):
    """One [words, 1, channels] per modality."""
    loaded = ()
    here = (word < L)[:, None] & (channel < D)[None, :]
    for i in tl.static_range(N):
        pointers = queries[i] + video * query_b[i] + word.to(tl.int64)[:, None] * query_l[i] + channel[None, :]
        loaded = loaded + (tl.load(pointers, mask=here, other=0.0).to(tl.float32)[:, None, :],)
    return loaded


@triton.jit
def _load_channels(channels, video, word, L, channel, D, N: tl.constexpr, PER_WORD: tl.constexpr):
    """One [1, channels] per modality, or [words, channels] if each word has its own."""
    loaded = ()
    here = (channel < D)[None, :]
    pointers = channel[None, :]
    if PER_WORD:
        here = here & (word < L)[:, None]
        pointers = ((video * L + word) * D)[:, None] + pointers
    for i in tl.static_range(N):
        loaded = loaded + (tl.load(channels[i] + pointers, mask=here, other=0.0).to(tl.float32),)
    return loaded


@triton.jit
def _load_keys(keys, key_b, key_t, video, first_row, real, channel, D, N: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip # noqa: E501
    """One [rows, channels] per tile, 0 in the padding, whatever lies there."""
    loaded = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            row = first_row + j * ROWS + tl.arange(0, ROWS)
            pointers = keys[i] + video * key_b[i] + (row[:, None] * key_t[i] + channel[None, :])
            here = real[i * TILES + j][:, None] & (channel < D)[None, :]
            loaded = loaded + (tl.load(pointers, mask=here, other=0.0),)
    return loaded


@triton.jit
def _key_powers(key, centre, N: tl.constexpr, TILES: tl.constexpr):
    """e^{2(k + centre)}: one [1, rows, channels] per tile."""
    powers = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            powers = powers + (_powers(key[i * TILES + j].to(tl.float32)[None], centre[i]),)
    return powers


@triton.jit
def _reciprocals(query, centre, key_powers, N: tl.constexpr, TILES: tl.constexpr, NATIVE: tl.constexpr):
    """r = 1 / (1 + e^{2q} e^{2k}), so that tanh(q + k) = 1 - 2r: one special-function operation per element.

    Both exponents are taken about the query of the block's first word, whatever its size: only queries of one video
    that differ by more than 34 in a channel meet the limit of `_powers`.
    """
    loaded = ()
    for i in tl.static_range(N):
        query_powers = _powers(query[i], -centre[i])
        for j in tl.static_range(TILES):
            loaded = loaded + (_reciprocal(query_powers * key_powers[i * TILES + j] + 1.0, NATIVE),)
    return loaded


@triton.jit
def _weigh(weights, first: tl.constexpr, x, N: tl.constexpr, TILES: tl.constexpr):
    """weight · x summed over the tiles of each modality: N tensors [words, rows, channels]; weights from `first` on."""
    weighed = ()
    for i in tl.static_range(N):
        total = weights[first + i * TILES] * x[i * TILES]
        for j in tl.static_range(1, TILES):
            total += weights[first + i * TILES + j] * x[i * TILES + j]
        weighed = weighed + (total,)
    return weighed


@triton.jit
def _add_2(a, b, c, d):
    return a + c, b + d


@triton.jit
def _add_3(a, b, c, d, e, f):
    return a + d, b + e, c + f


@triton.jit
def _sum_rows(parts, COUNT: tl.constexpr, NATIVE: tl.constexpr):
    """Σ over the rows of each [words, rows, channels]; three at a time: it is the exchange between warps that costs.

    The interpreter calls a combining function once per element, but knows how to add.
    """
    sums = ()
    for first in tl.static_range(0, COUNT, 3 if NATIVE else 1):
        if COUNT - first == 1 or not NATIVE:
            sums = sums + (tl.sum(parts[first], axis=1),)
        elif COUNT - first == 2:
            sums = sums + tl.reduce((parts[first], parts[first + 1]), 1, _add_2)
        else:
            sums = sums + tl.reduce((parts[first], parts[first + 1], parts[first + 2]), 1, _add_3)
    return sums


@triton.jit
def _sum_words(x, WORDS: tl.constexpr):
    """[words, rows, channels] → [1, rows, channels]"""
    if WORDS > 1:
        x = tl.sum(x, axis=0)[None]
    return x


@triton.jit
def _product(pooled, left_out: tl.constexpr, also: tl.constexpr, N: tl.constexpr):
    """Of all modalities but one or two."""
    product = tl.full(pooled[0].shape, 1.0, tl.float32)
    for i in tl.static_range(N):
        if i != left_out and i != also:
            product *= pooled[i]
    return product


@triton.jit
def forward_kernel(
    queries, keys, masks, scores, factors, channels,
    query_b, query_l, key_b, key_t, mask_b, factor_k, steps, L, D,
    N: tl.constexpr, K: tl.constexpr, PER_WORD: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    WORDS: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """scores_l[w, r] = Σ_d X_l[w, r, d] · channel_l[d] · Σ_k Π_{i≠l} Σ_s factor_i[k, s] X_i[w, s, d]   (eq. 3, 14-17)

    K = 0 is without the sum over k: unary attention, or with PER_WORD whatever vectors [B, L, D] the channels are.
    Grid: blocks of words, videos, blocks of rows (one if K > 0).
    """
    video = tl.program_id(1).to(tl.int64)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    first_word = tl.program_id(0) * WORDS + tl.arange(0, 1)
    first_row = tl.program_id(2) * (TILES * ROWS)
    real = _load_real(masks, mask_b, video, first_row, steps, N, TILES, ROWS, MASKED)
    factor = _load_factors(factors, factor_k, first_row, real, N, K, TILES, ROWS)

    total = _zeros(N * TILES, [WORDS, ROWS, LANES])
    for first in range(0, D, LANES):
        channel = first + tl.arange(0, LANES)
        centre = _load_queries(queries, query_b, query_l, video, first_word, L, channel, D, N)
        query = _load_queries(queries, query_b, query_l, video, word, L, channel, D, N)
        key = _load_keys(keys, key_b, key_t, video, first_row, real, channel, D, N, TILES, ROWS)
        vectors = _load_channels(channels, video, word, L, channel, D, N, PER_WORD)  # what X_l meets
        r = _reciprocals(query, centre, _key_powers(key, centre, N, TILES), N, TILES, NATIVE)
        x = ()
        for t in tl.static_range(N * TILES):
            x = x + (1.0 - 2.0 * r[t],)

        if K > 0:
            correlation = _zeros(N, [WORDS, LANES])
            for k in tl.static_range(K):
                pooled = _sum_rows(_weigh(factor, k * N * TILES, x, N, TILES), N, NATIVE)  # eq. 14
                added = ()
                for l in tl.static_range(N):
                    added = added + (correlation[l] + _product(pooled, l, l, N),)
                correlation = added  # eq. 16: B_l
            scaled = ()
            for l in tl.static_range(N):
                scaled = scaled + (vectors[l] * correlation[l],)
            vectors = scaled

        added = ()
        for l in tl.static_range(N):
            for j in tl.static_range(TILES):
                added = added + (total[l * TILES + j] + x[l * TILES + j] * vectors[l][:, None, :],)
        total = added

    for l in tl.static_range(N):
        line = (video * L + word).to(tl.int64) * steps[l]
        for j in tl.static_range(TILES):
            row = first_row + j * ROWS + tl.arange(0, ROWS)
            score = tl.where(real[l * TILES + j][None, :], tl.sum(total[l * TILES + j], axis=2), float("-inf"))
            here = (word < L)[:, None] & (row < steps[l])[None, :]
            tl.store(scores[l] + line[:, None] + row[None, :], score.to(scores[l].dtype.element_ty), mask=here)


@triton.jit
def backward_kernel(
    queries, keys, masks, gradients, factors, channels,
    query_gradients, key_gradients, factor_gradients, channel_gradients,
    query_b, query_l, key_b, key_t, mask_b, factor_k, steps, L, D,
    N: tl.constexpr, K: tl.constexpr, PER_WORD: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    WORDS: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """∂/∂q_i = Σ_r G_i and ∂/∂k_i = Σ_w G_i, where G = (1 - X²) · ∂/∂X and X is computed again.

    ∂/∂X_i[r] = g_i[r] · v_i + Σ_k factor_i[k, r] · ∂/∂pooled_i[k], where g are the gradients of the scores and v_i is
    the vector that X_i meets. Both vanish in the padding. Grid: blocks of channels, videos. factor_gradients
    [B, blocks, K, ΣT] and channel_gradients [B, D] are parts, to be summed over videos and blocks; PER_WORD they are
    [B, L, D] and whole.
    """
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = (channel < D)[None, :]
    real = _load_real(masks, mask_b, video, 0, steps, N, TILES, ROWS, MASKED)
    factor = _load_factors(factors, factor_k, 0, real, N, K, TILES, ROWS)
    channel_weights = ()
    if not PER_WORD:
        channel_weights = _load_channels(channels, video, tl.arange(0, 1), L, channel, D, N, False)
    centre = _load_queries(queries, query_b, query_l, video, tl.arange(0, 1), L, channel, D, N)
    key = _load_keys(keys, key_b, key_t, video, 0, real, channel, D, N, TILES, ROWS)
    key_powers = _key_powers(key, centre, N, TILES)

    key_gradient = _zeros(N * TILES, [1, ROWS, LANES])
    factor_gradient = _zeros(K * N * TILES, [1, ROWS, LANES])
    channel_gradient = _zeros(N, [WORDS, LANES])
    for first in range(0, L, WORDS):
        word = first + tl.arange(0, WORDS)
        query = _load_queries(queries, query_b, query_l, video, word, L, channel, D, N)
        r = _reciprocals(query, centre, key_powers, N, TILES, NATIVE)
        lines = ()
        for i in tl.static_range(N):
            lines = lines + ((video * L + word) * steps[i],)
        gradient = _load_steps(gradients, lines, word < L, 0, real, N, TILES, ROWS)
        x = ()
        for t in tl.static_range(N * TILES):
            x = x + (1.0 - 2.0 * r[t],)
        weighed = _weigh(gradient, 0, x, N, TILES)
        for k in tl.static_range(K):
            weighed = weighed + _weigh(factor, k * N * TILES, x, N, TILES)
        # Σ_r g_l[r] X_l[r, d] for each l, which is the gradient of v_l, and after them the pooled vectors of each k.
        summed = _sum_rows(weighed, (1 + K) * N, NATIVE)

        vectors = channel_weights
        if PER_WORD:
            vectors = _load_channels(channels, video, word, L, channel, D, N, True)
        correlation = ()
        pooled_gradients = ()
        if K > 0:
            correlation = _zeros(N, [WORDS, LANES])
            for k in tl.static_range(K):
                pooled = ()
                for i in tl.static_range(N):
                    pooled = pooled + (summed[(1 + k) * N + i],)
                added = ()
                for l in tl.static_range(N):
                    added = added + (correlation[l] + _product(pooled, l, l, N),)
                correlation = added
                for i in tl.static_range(N):
                    of_pooled = tl.zeros([WORDS, LANES], tl.float32)
                    for l in tl.static_range(N):
                        if l != i:
                            of_pooled += summed[l] * channel_weights[l] * _product(pooled, l, i, N)
                    pooled_gradients = pooled_gradients + (of_pooled[:, None, :],)
            vectors = ()
            for l in tl.static_range(N):
                vectors = vectors + (channel_weights[l] * correlation[l],)
        added = ()
        for l in tl.static_range(N):
            of_channel = summed[l]
            if K > 0:
                of_channel *= correlation[l]
            if PER_WORD:
                pointers = channel_gradients[l] + ((video * L + word) * D)[:, None] + channel[None, :]
                tl.store(pointers, of_channel, mask=(word < L)[:, None] & inside)
            added = added + (channel_gradient[l] + of_channel,)
        channel_gradient = added

        of_keys = ()
        of_queries = ()
        for i in tl.static_range(N):
            of_query = tl.zeros([WORDS, ROWS, LANES], tl.float32)
            for j in tl.static_range(TILES):
                of_x = gradient[i * TILES + j] * vectors[i][:, None, :]
                for k in tl.static_range(K):
                    of_x += factor[(k * N + i) * TILES + j] * pooled_gradients[k * N + i]
                s = r[i * TILES + j]
                of_z = of_x * (s - s * s)  # 1 - X² = 4 (r - r²): the 4 comes last
                of_query += of_z
                of_keys = of_keys + (key_gradient[i * TILES + j] + _sum_words(of_z, WORDS),)
            of_queries = of_queries + (of_query,)
        key_gradient = of_keys
        of_queries = _sum_rows(of_queries, N, NATIVE)
        for i in tl.static_range(N):
            pointers = query_gradients[i] + ((video * L + word) * D)[:, None] + channel[None, :]
            here = (word < L)[:, None] & inside
            tl.store(pointers, (4.0 * of_queries[i]).to(query_gradients[i].dtype.element_ty), mask=here)

        of_factors = ()
        for k in tl.static_range(K):
            for i in tl.static_range(N):
                for j in tl.static_range(TILES):
                    part = factor_gradient[(k * N + i) * TILES + j]
                    of_factors = of_factors + (
                        part + _sum_words(x[i * TILES + j] * pooled_gradients[k * N + i], WORDS),
                    )
        factor_gradient = of_factors

    block = video * tl.num_programs(0) + tl.program_id(0)
    all_steps = 0
    for i in tl.static_range(N):
        all_steps += steps[i]
    start = 0
    for i in tl.static_range(N):
        if not PER_WORD:
            pointers = channel_gradients[i] + video * D + channel
            tl.store(pointers, tl.sum(channel_gradient[i], axis=0), mask=channel < D)
        for j in tl.static_range(TILES):
            row = j * ROWS + tl.arange(0, ROWS)
            line = (video * steps[i] + row).to(tl.int64) * D
            pointers = key_gradients[i] + line[None, :, None] + channel[None, None, :]
            value = 4.0 * key_gradient[i * TILES + j]
            here = (row < steps[i])[None, :, None] & inside[:, None, :]
            tl.store(pointers, value.to(key_gradients[i].dtype.element_ty), mask=here)
            for k in tl.static_range(K):
                of_factor = tl.sum(factor_gradient[(k * N + i) * TILES + j], axis=2)
                of_factor = tl.where(real[i * TILES + j][None, :], of_factor, 0.0)
                pointers = factor_gradients + (block * K + k) * all_steps + start + row
                tl.store(pointers[None, :], of_factor, mask=(row < steps[i])[None, :])
        start += steps[i]
