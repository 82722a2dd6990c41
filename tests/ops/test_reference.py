"""The reference says what the paper says: its equations entry by entry, and the two propositions of its appendix."""

from __future__ import annotations

from itertools import product
from math import prod

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hoca.ops.reference import correlation, recover, weighted_sum

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)
spaces = st.integers(1, 6)
seeds = st.integers(0, 2**16)


def random_matrices(steps: list[int], size: int, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """n matrices I_i [1, 1, T_i, D], seen by one word of one video, and n vectors w_i [T_i]."""
    generator = torch.Generator().manual_seed(seed)
    matrices = [torch.randn(1, 1, t, size, generator=generator, dtype=torch.float64) for t in steps]
    return matrices, [torch.randn(t, generator=generator, dtype=torch.float64) for t in steps]


@settings(deadline=None)
@given(steps=sizes, size=spaces, seed=seeds)
def test_each_entry_of_the_correlation_is_the_inner_product_of_one_step_each(
    steps: list[int], size: int, seed: int
) -> None:
    matrices, _ = random_matrices(steps, size, seed)
    tensor = correlation(matrices)
    assert tensor.shape == (1, 1, *steps)
    for entry in product(*map(range, steps)):
        expected = sum(prod(float(x[0, 0, r, d]) for x, r in zip(matrices, entry, strict=True)) for d in range(size))
        torch.testing.assert_close(float(tensor[0, 0][entry]), expected, rtol=1e-10, atol=1e-12)  # eq. 7


@settings(deadline=None)
@given(steps=sizes, size=spaces, seed=seeds)
def test_proposition_1_weighting_the_tensor_is_weighting_each_matrix(steps: list[int], size: int, seed: int) -> None:
    matrices, vectors = random_matrices(steps, size, seed)
    outer = recover([w[None] for w in vectors], rank=1)  # eq. 11 with k = 1: ⊗ w_i
    weighted = [x * w[:, None] for x, w in zip(matrices, vectors, strict=True)]
    torch.testing.assert_close(correlation(matrices) * outer, correlation(weighted), rtol=1e-10, atol=1e-12)  # eq. 25


@settings(deadline=None)
@given(steps=sizes, size=spaces, seed=seeds)
def test_proposition_2_the_sum_of_the_tensor_needs_only_sums_over_time(steps: list[int], size: int, seed: int) -> None:
    matrices, _ = random_matrices(steps, size, seed)
    pooled = torch.stack([x.sum(2) for x in matrices])  # I_i 1_t: [n, 1, 1, D]
    torch.testing.assert_close(correlation(matrices).sum(), pooled.prod(0).sum(), rtol=1e-10, atol=1e-10)  # eq. 28


@settings(deadline=None)
@given(steps=sizes, size=spaces, rank=st.integers(1, 3), seed=seeds)
def test_the_weighted_sum_of_one_slice_is_the_low_rank_form(steps: list[int], size: int, rank: int, seed: int) -> None:
    """Both propositions together, as the paper uses them: eq. 12 = eq. 15."""
    matrices, _ = random_matrices(steps, size, seed)
    factors = [torch.randn(rank, t, dtype=torch.float64) for t in steps]
    for l, own in enumerate(matrices):
        others = [i for i in range(len(steps)) if i != l]
        weight = recover([factors[i] for i in others], rank)
        summed = torch.ones(rank, size, dtype=torch.float64)
        for i in others:
            summed = summed * (factors[i] @ matrices[i][0, 0])  # eq. 14
        expected = own @ summed.sum(0)  # eq. 15, 16
        torch.testing.assert_close(weighted_sum(correlation(matrices), weight, l), expected, rtol=1e-9, atol=1e-10)
