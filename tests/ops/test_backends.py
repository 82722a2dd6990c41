"""Every backend gives the same scores and the same gradients, whatever the sizes, masks and precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hoca import ops

KINDS = ("unary", "exact", "low_rank")
STEPS = ((7,), (7, 5), (7, 5, 3), (7, 5, 3, 1))
# Video 0 is full, video 1 ragged, down to a single step: [modality][video].
LENGTHS = ([7, 4], [5, 1], [3, 2], [1, 1])


def assert_same_gradients(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, rtol=1e-9, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", STEPS, ids=len)
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
def test_values_and_every_gradient_agree(
    make_group: Callable[..., Any], kind: str, steps: tuple[int, ...], ragged: bool
) -> None:
    group = make_group(steps, lengths=LENGTHS[: len(steps)] if ragged else None)

    for actual, expected in zip(group.scores(kind, "contracted"), group.scores(kind, "reference"), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    assert_same_gradients(group.gradients(kind, "contracted"), group.gradients(kind, "reference"))


@settings(deadline=None, max_examples=40)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_values_and_every_gradient_agree_for_any_sizes(
    make_group: Callable[..., Any], data: st.DataObject, kind: str
) -> None:
    steps = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    batch = data.draw(st.integers(1, 3))
    # A length of 0 is an all-False mask row: the video lacks this modality.
    lengths = [data.draw(st.lists(st.integers(0, t), min_size=batch, max_size=batch)) for t in steps]
    sizes = {name: data.draw(st.integers(1, 5), label=name) for name in ("words", "size", "rank")}
    group = make_group(steps, batch=batch, lengths=lengths, seed=data.draw(st.integers(0, 99)), **sizes)

    for actual, expected in zip(group.scores(kind, "contracted"), group.scores(kind, "reference"), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)
    assert_same_gradients(group.gradients(kind, "contracted"), group.gradients(kind, "reference"))


@pytest.mark.parametrize("backend", ["reference", "contracted", "contracted, word by word"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [(3,), (3, 2), (3, 2, 4), (3, 2, 2, 1)], ids=len)
def test_gradients_are_those_of_finite_differences(
    make_group: Callable[..., Any], kind: str, steps: tuple[int, ...], backend: str
) -> None:
    lengths = [[t, max(1, t - 1)] for t in steps]
    group = make_group(steps, words=2, size=3, lengths=lengths)
    backend, _, chunked = backend.partition(", ")
    inputs = group.inputs(kind)

    def real_scores(*_: Tensor) -> tuple[Tensor, ...]:
        scores = group.scores(kind, backend)
        return tuple(s.masked_fill(~mask[:, None], 0.0) for s, mask in zip(scores, group.masks, strict=True))

    with ops.workspace(1 if chunked else 1 << 30):
        assert torch.autograd.gradcheck(real_scores, tuple(inputs.values()))


# Error relative to the largest score: the unit roundoff of the type, times a few roundings in a row.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 2.5e-3, torch.bfloat16: 2e-2}


def relative_error(actual: Tensor, expected: Tensor) -> float:
    finite = expected.isfinite()
    assert torch.equal(actual.isfinite(), finite)
    return ((actual.double() - expected)[finite].abs().max() / expected[finite].abs().max()).item()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("backend", ["reference", "contracted"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_precision_is_near_float64(
    make_group: Callable[..., Any], kind: str, backend: str, dtype: torch.dtype
) -> None:
    exact = make_group((7, 5, 3), size=16, lengths=LENGTHS[:3])
    rounded = exact.to(dtype)

    for actual, expected in zip(rounded.scores(kind, backend), exact.scores(kind, "reference"), strict=True):
        assert actual.dtype == dtype
        assert relative_error(actual, expected) < TOLERANCE[dtype]
    expected_gradients = exact.gradients(kind, "reference")
    for name, actual in rounded.gradients(kind, backend).items():
        assert actual.dtype == dtype
        assert relative_error(actual, expected_gradients[name]) < 2 * TOLERANCE[dtype], name


@pytest.mark.parametrize("backend", ["reference", "contracted"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 1 << 30], ids=["chunked", "whole"])
def test_autocast_takes_float32_parameters_and_bfloat16_activations(
    make_group: Callable[..., Any], kind: str, backend: str, limit: int
) -> None:
    exact = make_group((7, 5, 3), size=16, lengths=LENGTHS[:3])
    mixed = exact.to(torch.float32)
    mixed.queries = [q.detach().bfloat16().requires_grad_() for q in mixed.queries]
    mixed.keys = [k.detach().bfloat16().requires_grad_() for k in mixed.keys]

    with torch.autocast("cpu", torch.bfloat16), ops.workspace(limit):
        scores = mixed.scores(kind, backend)
        gradients = mixed.gradients(kind, backend)

    for actual, expected in zip(scores, exact.scores(kind, "reference"), strict=True):
        assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]
    expected_gradients = exact.gradients(kind, "reference")
    for name, actual in gradients.items():
        assert relative_error(actual, expected_gradients[name]) < 2 * TOLERANCE[torch.bfloat16], name


@pytest.mark.parametrize("backend", ["reference", "contracted"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("steps", "batch", "words"), [((7, 0, 3), 2, 3), ((0, 0, 0), 2, 3), ((4, 2), 0, 3), ((4, 2), 2, 0)], ids=str
)
def test_empty_dimensions_are_no_special_case(
    make_group: Callable[..., Any], kind: str, backend: str, steps: Sequence[int], batch: int, words: int
) -> None:
    group = make_group(steps, batch=batch, words=words)
    for t, scores in zip(steps, group.scores(kind, backend), strict=True):
        assert scores.shape == (batch, words, t)
        assert scores.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in group.gradients(kind, backend).values())


def test_auto_gives_what_contracted_gives_on_the_cpu(make_group: Callable[..., Any]) -> None:
    group = make_group((7, 5, 3))
    for actual, expected in zip(group.scores("exact"), group.scores("exact", "contracted"), strict=True):
        assert torch.equal(actual, expected)
