"""The layout of an epoch is a function of its seed that no version of a library changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.data.plan import Plan

counts_of_videos = st.lists(st.integers(1, 12), min_size=1, max_size=30)


def laid_out(sizes: list[int], chunk: int | None, batch: int, seed: tuple[int, int], bucket: bool) -> Plan:
    owner = np.repeat(np.arange(len(sizes)), sizes)
    words = 3 + np.arange(len(owner)) * 7 % 11
    return Plan.make(owner, words, np.full(len(sizes), 20), chunk=chunk, batch=batch, seed=seed, bucket=bucket)


@settings(deadline=None)
@given(counts_of_videos, st.none() | st.integers(1, 15), st.integers(1, 9), st.integers(0, 2**63), st.booleans())
def test_items_are_full_chunks_of_one_video(
    sizes: list[int], chunk: int | None, batch: int, seed: int, bucket: bool
) -> None:
    plan = laid_out(sizes, chunk, batch, (seed, 3), bucket)
    items = np.concatenate(plan.batches)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    assert sorted(items) == list(range(sum(-(-size // (chunk or size)) for size in sizes)))
    assert sorted(np.concatenate([plan.captions(item) for item in items])) == list(range(len(owner)))
    for item in items:
        assert {plan.video(item)} == set(owner[plan.captions(item)])
    for video, size in enumerate(sizes):
        chunks = sorted((len(plan.captions(item)) for item in items if plan.video(item) == video), reverse=True)
        assert sum(chunks) == size
        assert all(each == chunk for each in chunks[:-1])
    assert sorted(map(len, plan.batches))[1:] == [batch] * (len(plan) - 1)


def test_the_order_is_pinned() -> None:
    """A run that is resumed with another numpy must meet the same batches."""
    plan = laid_out([3, 1, 4, 2], 2, 2, (7, 1), True)
    assert [[plan.captions(item).tolist() for item in batch] for batch in plan.batches] == [
        [[1], [8, 9]],
        [[4, 6], [3]],
        [[0, 2], [5, 7]],
    ]
