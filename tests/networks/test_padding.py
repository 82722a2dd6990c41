"""SAME padding against a direct computation: loops over windows, straight from its definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hoca.networks.padding import same_convolution, same_max_pool3d, same_padding

sizes = st.tuples(*[st.integers(1, 9)] * 3)
kernels = st.tuples(*[st.sampled_from([1, 2, 3, 7])] * 3)
strides = st.tuples(*[st.integers(1, 3)] * 3)


def windows(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...]
) -> dict[tuple[int, ...], list[slice]]:
    """Output place → the part of the padded input that it sees: ⌈size/stride⌉ windows along each axis."""
    outputs = [math.ceil(n / s) for n, s in zip(size, stride, strict=True)]
    return {
        place: [slice(p * s, p * s + k) for p, s, k in zip(place, stride, kernel, strict=True)]
        for place in itertools.product(*map(range, outputs))
    }


def padded(x: np.ndarray, kernel: tuple[int, ...], stride: tuple[int, ...], value: float) -> np.ndarray:
    amounts = [(0, 0)]
    for n, k, s in zip(x.shape[1:], kernel, stride, strict=True):
        total = max((math.ceil(n / s) - 1) * s + k - n, 0)
        amounts.append((math.floor(total / 2), math.ceil(total / 2)))
    return np.pad(x, amounts, constant_values=value)


@settings(max_examples=40, deadline=None)
@given(sizes, kernels, strides)
def test_convolution(size: tuple[int, int, int], kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> None:
    convolution = nn.Conv3d(2, 3, kernel, stride).requires_grad_(False)
    x = torch.randn(1, 2, *size)
    found = same_convolution(convolution, x)[0].numpy()
    weight, bias = convolution.weight.numpy(), convolution.bias.numpy()  # type: ignore[union-attr]
    wide = padded(x[0].numpy(), kernel, stride, 0.0)
    expected = np.zeros_like(found)
    for place, seen in windows(size, kernel, stride).items():
        expected[(slice(None), *place)] = (weight * wide[(slice(None), *seen)]).sum((1, 2, 3, 4)) + bias
    np.testing.assert_allclose(found, expected, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    sizes,
    st.sampled_from([((1, 3, 3), (1, 2, 2)), ((3, 3, 3), (2, 2, 2)), ((2, 2, 2), (2, 2, 2)), ((3, 3, 3), (1, 1, 1))]),
)
def test_max_pool(size: tuple[int, int, int], pool: tuple[tuple[int, int, int], tuple[int, int, int]]) -> None:
    kernel, stride = pool
    x = torch.randn(1, 2, *size) - 5  # all negative: a padding of zeros would win
    found = same_max_pool3d(x, kernel, stride)[0].numpy()
    wide = padded(x[0].numpy(), kernel, stride, -np.inf)
    expected = np.zeros_like(found)
    for place, seen in windows(size, kernel, stride).items():
        expected[(slice(None), *place)] = wide[(slice(None), *seen)].max((1, 2, 3))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("size", "both"), [(224, (2, 3)), (375, (3, 3)), (7, (3, 3))])
def test_the_first_convolution_of_i3d(size: int, both: tuple[int, int]) -> None:
    assert same_padding(size, 7, 2) == both
