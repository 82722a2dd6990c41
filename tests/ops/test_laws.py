"""What holds between the kinds of attention: rank and weights, one modality, the order of modalities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hoca import ops
from hoca.ops.reference import recover

BACKENDS = ("reference", "contracted")
STEPS = (5, 4, 3, 2)
LENGTHS = ([5, 2], [1, 4], [3, 2], [2, 1])


def ones_like_channels(group: Any) -> list[Tensor]:
    return [torch.ones_like(channel) for channel in group.channels]


def assert_all_close(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-11)


@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(1, 4),
    rank=st.integers(1, 5),
    seed=st.integers(0, 99),
    ragged=st.booleans(),
    backend=st.sampled_from(BACKENDS),
)
def test_low_rank_is_exact_with_the_weights_it_spans(
    make_group: Callable[..., Any],
    weighing: Callable[..., Any],
    count: int,
    rank: int,
    seed: int,
    ragged: bool,
    backend: str,
) -> None:
    group = make_group(STEPS[:count], rank=rank, lengths=LENGTHS[:count] if ragged else None, seed=seed)
    inputs = [*group.queries, *group.keys, *group.factors]
    low_rank = ops.low_rank_scores(
        group.queries, group.keys, group.factors, ones_like_channels(group), group.masks, backend=backend
    )
    spanned = [
        recover([*group.factors[:l], *group.factors[l + 1 :]], rank).to(group.keys[0]) for l in range(count)
    ]  # eq. 11
    exact = ops.exact_scores(group.queries, group.keys, spanned, group.masks, backend=backend)

    assert_all_close(low_rank, exact)
    assert_all_close(
        *(torch.autograd.grad(weighing(scores), inputs, materialize_grads=True) for scores in (low_rank, exact))
    )


def shared_factors(weights: Sequence[Tensor], steps: Sequence[int]) -> list[Tensor]:
    """Factors of rank Σ_l rank(W_l) that span all the weights of a group of two or three modalities at once.

    Each W_l has a block of ranks to itself, in which its own modality's factor is zero: every other modality's
    weights have that factor in their product, so the block adds nothing to them.
    """
    blocks: list[list[Tensor]] = [[] for _ in steps]
    for l, weight in enumerate(weights):
        matrix = weight.reshape(weight.shape[0], -1)  # a vector is a matrix of one column
        rank = int(torch.linalg.matrix_rank(matrix))
        u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
        others = [(u * s).T[:rank], vh[:rank]] if weight.dim() == 2 else [(u * s * vh).T[:rank]]
        others.insert(l, torch.zeros(rank, steps[l], dtype=weight.dtype))
        for block, factor in zip(blocks, others, strict=True):
            block.append(factor)  # [rank(W_l), T_i]
    return [torch.cat(block) for block in blocks]


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    weight_rank=st.integers(1, 3),
    seed=st.integers(0, 99),
    backend=st.sampled_from(BACKENDS),
)
def test_any_weights_are_low_rank_for_a_rank_that_is_the_sum_of_theirs(
    make_group: Callable[..., Any], steps: list[int], weight_rank: int, seed: int, backend: str
) -> None:
    group = make_group(steps, rank=weight_rank, seed=seed)
    if len(steps) == 3:  # matrices of a known, deficient rank
        group.weights = [recover(group.factors[:l] + group.factors[l + 1 :], weight_rank) for l in range(3)]
    weights = [weight.detach() for weight in group.weights]
    factors = shared_factors(weights, steps)

    assert factors[0].shape[0] == sum(int(torch.linalg.matrix_rank(w.reshape(w.shape[0], -1))) for w in weights)
    if len(steps) == 3:
        assert factors[0].shape[0] <= 3 * weight_rank
    assert_all_close(
        ops.low_rank_scores(group.queries, group.keys, factors, ones_like_channels(group), backend=backend),
        ops.exact_scores(group.queries, group.keys, weights, backend=backend),
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_one_modality_the_empty_product_is_one(make_group: Callable[..., Any], backend: str) -> None:
    group = make_group((7,), rank=3, lengths=[[7, 4]])
    mask, channel = group.masks[0], group.channels[0]
    mapped = torch.tanh(group.queries[0][:, :, None] + group.keys[0][:, None])

    def padded(scores: Tensor) -> list[Tensor]:
        return [scores.masked_fill(~mask[:, None], float("-inf"))]

    assert group.weights[0].shape == ()
    assert_all_close(group.scores("unary", backend), padded(mapped @ channel))
    assert_all_close(group.scores("exact", backend), padded(group.weights[0] * mapped.sum(3)))
    assert_all_close(group.scores("low_rank", backend), padded(3 * (mapped @ channel)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["exact", "low_rank"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_permuting_modalities_permutes_the_scores(
    make_group: Callable[..., Any], kind: str, backend: str, count: int
) -> None:
    group = make_group(STEPS[:count], lengths=LENGTHS[:count])
    scores = group.scores(kind, backend)
    for order in permutations(range(count)):
        assert_all_close(group.permuted(order).scores(kind, backend), [scores[i] for i in order])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["unary", "exact", "low_rank"])
def test_words_do_not_see_each_other(make_group: Callable[..., Any], kind: str, backend: str) -> None:
    group = make_group(STEPS[:3], words=4)
    whole = group.scores(kind, backend)
    group.queries = [query[:, 2:3] for query in group.queries]
    assert_all_close(group.scores(kind, backend), [scores[:, 2:3] for scores in whole])
