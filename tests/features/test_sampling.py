from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.features.sampling import CHUNK, Chunks, averaged, shortened, window_means

counts = st.integers(1, 12_000)


@given(counts, st.integers(1, 80))
def test_chunks_stay_inside_in_order_and_hold_their_middle(count: int, steps: int) -> None:
    starts = Chunks(steps).starts(count)
    middles = [(2 * i + 1) * count // (2 * steps) for i in range(steps)]
    assert len(starts) == steps
    assert starts == sorted(starts)
    for start, middle in zip(starts, middles, strict=True):
        assert 0 <= start <= middle < start + CHUNK
        assert start + CHUNK <= max(count, CHUNK)
        if CHUNK // 2 <= middle <= count - CHUNK // 2:
            assert middle - start == CHUNK // 2


@given(counts, st.integers(1, 80))
def test_frames_are_wanted_once_and_none_is_missing(count: int, steps: int) -> None:
    chunks = Chunks(steps)
    numbers = list(chunks(count))
    wanted = {min(start + step, count - 1) for start in chunks.starts(count) for step in range(CHUNK)}
    assert set(numbers) == wanted
    assert numbers == sorted(numbers)
    assert len(numbers) == sum(last - first for first, last in chunks.runs(count))
    if count >= CHUNK:
        assert len(numbers) == len(wanted)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 25))
def test_averages_are_those_of_adaptive_pooling(count: int, steps: int) -> None:
    values = np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32)
    expected = torch.nn.functional.adaptive_avg_pool1d(torch.from_numpy(values.T)[None], steps)[0].T.numpy()
    np.testing.assert_allclose(averaged(values, steps), expected, atol=1e-5)
    assert len(shortened(values, steps)) == min(count, steps)


def test_windows_weigh_what_is_half_inside_by_half() -> None:
    values = np.arange(6, dtype=np.float32)[:, None]
    np.testing.assert_allclose(window_means(values, [0, 1.5, 3], 2)[:, 0], [0.5, 2.0, 3.5])
    # whole windows of a constant are that constant, also where the stretch ends early
    np.testing.assert_allclose(window_means(np.ones((7, 2)), [0.25, 5.5], 4), 1.0)
