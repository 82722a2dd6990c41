# mypy: ignore-errors
# ruff: noqa: RUF005
# Triton's language has no types to annotate and builds tuples by + alone.
"""The two Triton kernels over one group: scores, and their gradients. Neither writes X to memory.

Everything between X and the scores is local to a word and a channel, so one pass over X is enough:

- forward: a program owns some words of a video and goes through the channels; sums over channels stay in registers;
- backward: a program owns some channels of a video and goes through the words; sums over words stay in registers.

Every output element has one program that owns it: no atomics, the same bits every time. The steps of each modality
are cut into TILES tiles of ROWS, and a value per tile is a tuple of N · TILES tensors [words, channels, rows]: which
modality a row belongs to is known when the kernel is compiled. A tile of one word is one warp's, so that warps share
words and no sum crosses them. What is loaded within a loop has a pointer for every element of the tile, although
words or channels read the same: each thread then loads what it needs, several rows at once, and hands nothing around.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hoca.ops.fused.powers import place


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
def _load_real(masks, mask_b, video, row, steps, N: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip # noqa: E501
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
def _load_factors(factors, factor_k, row, real, N: tl.constexpr, K: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip # noqa: E501
    """One [1, 1, rows] per rank and tile, 0 in the padding."""
    loaded = ()
    for k in tl.static_range(K):
        for i in tl.static_range(N):
            for j in tl.static_range(TILES):
                pointers = factors[i] + k * factor_k[i] + row + j * ROWS
                loaded = loaded + (tl.load(pointers, mask=real[i * TILES + j], other=0.0).to(tl.float32),)
    return loaded


@triton.jit
def _load_vectors(channels, video, word, L, channel, D, N: tl.constexpr, PER_WORD: tl.constexpr):
    """One [1, channels, 1] per modality, or [words, channels, 1] if each word has its own."""
    loaded = ()
    for i in tl.static_range(N):
        pointers = channels[i] + channel
        if PER_WORD:
            pointers += (video * L + word) * D
        loaded = loaded + (tl.load(pointers, mask=channel < D, other=0.0).to(tl.float32),)
    return loaded


@triton.jit
def _pool(weights, first: tl.constexpr, x, N: tl.constexpr, TILES: tl.constexpr):
    """Σ over the rows of weight · x: one [words, channels, 1] per modality; weights from `first` on."""
    pooled = ()
    for i in tl.static_range(N):
        total = weights[first + i * TILES] * x[i * TILES]
        for j in tl.static_range(1, TILES):
            total += weights[first + i * TILES + j] * x[i * TILES + j]
        pooled = pooled + (tl.sum(total, axis=2, keep_dims=True),)
    return pooled


@triton.jit
def _load_block(
    query_powers, key_powers, channels, video, line, lane, row, first, B, L, D, WIDTH, HEIGHT,
    N: tl.constexpr, PER_WORD: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """All that a forward program needs of some channels: keys [words, channels, rows], queries, and what X_l meets."""
    keys = ()
    queries = ()
    block = place(first, 0, HEIGHT) + place(lane, row, HEIGHT) + line * 0
    for i in tl.static_range(N):
        queries = queries + (tl.load(query_powers + (i * B + video) * L * WIDTH + first + (line * WIDTH + lane)),)
        for j in tl.static_range(TILES):
            keys = keys + (tl.load(key_powers + (i * B + video) * WIDTH * HEIGHT + block + 8 * j * ROWS),)
    return keys, queries, _load_vectors(channels, video, line, L, first + lane, D, N, PER_WORD)


@triton.jit
def _load_word(
    query_powers, gradients, video, word, channel, row, steps, B, L, WIDTH,
    N: tl.constexpr, FULL: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """All that a backward program needs of a word: gradients of the scores [1, channels, rows], and queries."""
    loaded = ()
    queries = ()
    for i in tl.static_range(N):
        queries = queries + (tl.load(query_powers + ((i * B + video) * L + word) * WIDTH + channel),)
        for j in tl.static_range(TILES):
            step = j * ROWS + row + channel * 0
            pointers = gradients[i] + (video * L + word) * steps[i] + step
            if FULL:
                loaded = loaded + (tl.load(pointers),)
            else:
                loaded = loaded + (tl.load(pointers, mask=step < steps[i], other=0.0),)
    return loaded, queries


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
    query_powers, key_powers, masks, scores, factors, channels,
    mask_b, factor_k, steps, B, L, D, WIDTH, HEIGHT,
    N: tl.constexpr, K: tl.constexpr, PER_WORD: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    AHEAD: tl.constexpr, WORDS: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """scores_l[w, r] = Σ_d X_l[w, r, d] · channel_l[d] · Σ_k Π_{i≠l} Σ_s factor_i[k, s] X_i[w, s, d]   (eq. 3, 14-17)

    X = tanh(q + k) = 1 - 2 / (1 + e^{2q} e^{2k}): one special-function operation per element. K = 0 is without the sum
    over k: unary attention, or with PER_WORD whatever vectors [B, L, D] the channels are. AHEAD: channels are loaded
    while those before are worked on, which takes registers. Grid: blocks of words, videos, blocks of rows
    (one if K > 0).
    """
    video = tl.program_id(1).to(tl.int64)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)[:, None, None]
    line = tl.minimum(word, L - 1)
    lane = tl.arange(0, LANES)[None, :, None]
    row = tl.program_id(2) * (TILES * ROWS) + tl.arange(0, ROWS)[None, None, :]
    real = _load_real(masks, mask_b, video, row, steps, N, TILES, ROWS, MASKED)
    factor = _load_factors(factors, factor_k, row, real, N, K, TILES, ROWS)

    total = _zeros(N * TILES, [WORDS, LANES, ROWS])
    if AHEAD:
        next_key, next_query, next_given = _load_block(
            query_powers, key_powers, channels, video, line, lane, row, 0, B, L, D, WIDTH, HEIGHT,
            N, PER_WORD, TILES, ROWS,
        )  # fmt: skip
    for first in range(0, D, LANES):
        if AHEAD:
            key, query, given = next_key, next_query, next_given
            next_key, next_query, next_given = _load_block(
                query_powers, key_powers, channels, video, line, lane, row, tl.minimum(first + LANES, WIDTH - LANES),
                B, L, D, WIDTH, HEIGHT, N, PER_WORD, TILES, ROWS,
            )  # fmt: skip
        else:
            key, query, given = _load_block(
                query_powers, key_powers, channels, video, line, lane, row, first, B, L, D, WIDTH, HEIGHT,
                N, PER_WORD, TILES, ROWS,
            )  # fmt: skip
        x = ()
        for i in tl.static_range(N):
            for j in tl.static_range(TILES):
                x = x + (1.0 - 2.0 * _reciprocal(query[i] * key[i * TILES + j] + 1.0, NATIVE),)

        vectors = given
        if K > 0:
            correlation = _zeros(N, [WORDS, LANES, 1])
            for k in tl.static_range(K):
                pooled = _pool(factor, k * N * TILES, x, N, TILES)  # eq. 14
                added = ()
                for l in tl.static_range(N):
                    added = added + (correlation[l] + _product(pooled, l, l, N),)
                correlation = added  # eq. 16: B_l
            scaled = ()
            for l in tl.static_range(N):
                scaled = scaled + (given[l] * correlation[l],)
            vectors = scaled

        added = ()
        for l in tl.static_range(N):
            for j in tl.static_range(TILES):
                added = added + (total[l * TILES + j] + x[l * TILES + j] * vectors[l],)
        total = added

    for l in tl.static_range(N):
        for j in tl.static_range(TILES):
            score = tl.sum(total[l * TILES + j], axis=1, keep_dims=True)
            score = tl.where(real[l * TILES + j], score, float("-inf")).to(scores[l].dtype.element_ty)
            here = (word < L) & (row + j * ROWS < steps[l])
            tl.store(scores[l] + (video * L + word) * steps[l] + row + j * ROWS, score, mask=here)


@triton.jit
def backward_kernel(
    query_powers, key_powers, masks, gradients, factors, channels,
    query_gradients, key_gradients, factor_gradients, channel_gradients,
    mask_b, factor_k, steps, B, L, D, WIDTH, HEIGHT,
    N: tl.constexpr, K: tl.constexpr, PER_WORD: tl.constexpr, MASKED: tl.constexpr, NATIVE: tl.constexpr,
    FULL: tl.constexpr, AHEAD: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """∂/∂q_i = Σ_r G_i and ∂/∂k_i = Σ_w G_i, where G = (1 - X²) · ∂/∂X and X is computed again.

    ∂/∂X_i[r] = g_i[r] · v_i + Σ_k factor_i[k, r] · ∂/∂pooled_i[k], where g are the gradients of the scores and v_i is
    the vector that X_i meets. In the padding g is 0, as given, and so is r - r². Grid: blocks of channels, videos.
    factor_gradients [B, blocks, K, ΣT] and channel_gradients [B, D] are parts, to be summed over videos and blocks;
    PER_WORD they are [B, L, D] and whole. FULL: every row is a step of each modality. AHEAD: as
    above, of words.
    """
    video = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)[None, :, None]
    row = tl.arange(0, ROWS)[None, None, :]
    inside = channel < D
    real = _load_real(masks, mask_b, video, row, steps, N, TILES, ROWS, MASKED)
    factor = _load_factors(factors, factor_k, row, real, N, K, TILES, ROWS)
    channel_weights = ()
    if not PER_WORD:
        channel_weights = _load_vectors(channels, video, 0, L, channel, D, N, False)
    key = ()
    for i in tl.static_range(N):
        for j in tl.static_range(TILES):
            start = (i * B + video) * WIDTH * HEIGHT
            key = key + (tl.load(key_powers + start + place(channel, row + j * ROWS, HEIGHT)),)

    key_gradient = _zeros(N * TILES, [1, LANES, ROWS])
    factor_gradient = _zeros(K * N * TILES, [1, LANES, ROWS])
    channel_gradient = _zeros(N, [1, LANES, 1])
    if AHEAD:
        next_loaded, next_query = _load_word(
            query_powers, gradients, video, 0, channel, row, steps, B, L, WIDTH, N, FULL, TILES, ROWS
        )
    for word in range(0, L):
        if AHEAD:
            loaded, query = next_loaded, next_query
            next_loaded, next_query = _load_word(
                query_powers, gradients, video, tl.minimum(word + 1, L - 1), channel, row, steps, B, L, WIDTH,
                N, FULL, TILES, ROWS,
            )  # fmt: skip
        else:
            loaded, query = _load_word(
                query_powers, gradients, video, word, channel, row, steps, B, L, WIDTH, N, FULL, TILES, ROWS
            )
        r = ()
        x = ()
        gradient = ()
        for i in tl.static_range(N):
            for j in tl.static_range(TILES):
                s = _reciprocal(query[i] * key[i * TILES + j] + 1.0, NATIVE)
                r = r + (s,)
                x = x + (1.0 - 2.0 * s,)
                gradient = gradient + (loaded[i * TILES + j].to(tl.float32),)
        summed = _pool(gradient, 0, x, N, TILES)  # the gradient of v_l

        vectors = channel_weights
        if PER_WORD:
            vectors = _load_vectors(channels, video, word, L, channel, D, N, True)
        correlation = ()
        pooled_gradients = ()
        if K > 0:
            correlation = _zeros(N, [1, LANES, 1])
            for k in tl.static_range(K):
                pooled = _pool(factor, k * N * TILES, x, N, TILES)
                added = ()
                for l in tl.static_range(N):
                    added = added + (correlation[l] + _product(pooled, l, l, N),)
                correlation = added
                for i in tl.static_range(N):
                    of_pooled = tl.zeros([1, LANES, 1], tl.float32)
                    for l in tl.static_range(N):
                        if l != i:
                            of_pooled += summed[l] * channel_weights[l] * _product(pooled, l, i, N)
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
                s = r[i * TILES + j]
                of_z = of_x * (s - s * s)  # 1 - X² = 4 (r - r²): the 4 comes last
                of_query += of_z
                of_keys = of_keys + (key_gradient[i * TILES + j] + of_z,)
            pointers = query_gradients[i] + (video * L + word) * D + channel
            value = 4.0 * tl.sum(of_query, axis=2, keep_dims=True)
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
            value = (4.0 * key_gradient[i * TILES + j]).to(key_gradients[i].dtype.element_ty)
            tl.store(pointers, value, mask=(step < steps[i]) & inside)
            for k in tl.static_range(K):
                of_factor = tl.sum(factor_gradient[(k * N + i) * TILES + j], axis=1, keep_dims=True)
                of_factor = tl.where(real[i * TILES + j], of_factor, 0.0)
                pointers = factor_gradients + (block * K + k) * all_steps + before + step
                tl.store(pointers, of_factor, mask=step < steps[i])
        before += steps[i]
