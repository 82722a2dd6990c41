"""Padding is not there: it gets -inf, takes part in no sum, and whatever lies in it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca import ops

KINDS = ("unary", "exact", "low_rank")
BACKENDS = ("reference", "contracted")
STEPS = (7, 5, 3)
LENGTHS = ([7, 4], [1, 5], [2, 3])


def over_kinds_and_backends(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("kind", KINDS)(pytest.mark.parametrize("backend", BACKENDS)(test))


@over_kinds_and_backends
def test_padded_steps_are_minus_infinity_and_no_other(make_group: Callable[..., Any], kind: str, backend: str) -> None:
    group = make_group(STEPS, lengths=LENGTHS)
    for scores, mask in zip(group.scores(kind, backend), group.masks, strict=True):
        padded = ~mask[:, None].expand_as(scores)
        assert (scores[padded] == float("-inf")).all()
        assert scores[~padded].isfinite().all()


@over_kinds_and_backends
@pytest.mark.parametrize("limit", [1, 1 << 30], ids=["chunked", "whole"])
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), float("-inf"), 1e30], ids=str)
def test_garbage_in_the_padding_does_not_matter(
    make_group: Callable[..., Any], kind: str, backend: str, garbage: float, limit: int
) -> None:
    clean = make_group(STEPS, lengths=LENGTHS)
    dirty = replace(
        clean,
        keys=[
            key.detach().masked_fill(~mask[:, :, None], garbage).requires_grad_()
            for key, mask in zip(clean.keys, clean.masks, strict=True)
        ],
    )
    with ops.workspace(limit):
        for actual, expected in zip(dirty.scores(kind, backend), clean.scores(kind, backend), strict=True):
            assert torch.equal(actual, expected)
        expected_gradients = clean.gradients(kind, backend)
        for name, gradient in dirty.gradients(kind, backend).items():
            assert torch.equal(gradient, expected_gradients[name]), name


@over_kinds_and_backends
def test_padding_has_no_gradient(make_group: Callable[..., Any], kind: str, backend: str) -> None:
    group = make_group(STEPS, lengths=LENGTHS)
    gradients = group.gradients(kind, backend)
    for i, mask in enumerate(group.masks):
        assert (gradients[f"keys[{i}]"][~mask] == 0).all()
        assert (gradients[f"keys[{i}]"][mask] != 0).any(dim=-1).all()


@over_kinds_and_backends
@pytest.mark.parametrize("garbage", [0.0, float("nan")], ids=str)
def test_a_modality_that_a_video_lacks_is_minus_infinity_and_moves_nothing(
    make_group: Callable[..., Any], kind: str, backend: str, garbage: float
) -> None:
    lacking, video = 1, 0
    group = make_group(STEPS, lengths=[[7, 4], [0, 5], [2, 3]])
    group.keys[lacking] = group.keys[lacking].detach().clone()
    group.keys[lacking][video] = garbage
    group.keys[lacking].requires_grad_()

    scores = group.scores(kind, backend)
    assert (scores[lacking][video] == float("-inf")).all()
    for i in (0, 2):
        assert scores[i][video][:, group.masks[i][video]].isfinite().all()
    gradients = group.gradients(kind, backend)
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert (gradients[f"queries[{lacking}]"][video] == 0).all()
    assert (gradients[f"keys[{lacking}]"][video] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["exact", "low_rank"])
def test_a_batch_in_which_nobody_has_a_modality(make_group: Callable[..., Any], kind: str, backend: str) -> None:
    group = make_group(STEPS, lengths=[[7, 4], [0, 0], [2, 3]])
    scores = group.scores(kind, backend)
    assert (scores[1] == float("-inf")).all()
    # The sums of the others run over nothing.
    assert (scores[0][group.masks[0][:, None].expand_as(scores[0])] == 0).all()
    assert all((gradient == 0).all() for gradient in group.gradients(kind, backend).values())


@settings(deadline=None, max_examples=40)
@given(data=st.data(), kind=st.sampled_from(KINDS), backend=st.sampled_from(BACKENDS))
def test_a_padded_batch_equals_its_videos_one_at_a_time(
    make_group: Callable[..., Any], weighing: Callable[..., Any], data: st.DataObject, kind: str, backend: str
) -> None:
    steps = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    batch = data.draw(st.integers(1, 3))
    lengths = [data.draw(st.lists(st.integers(1, t), min_size=batch, max_size=batch)) for t in steps]
    group = make_group(steps, batch=batch, lengths=lengths, seed=data.draw(st.integers(0, 99)))

    alone = []
    for b in range(batch):
        real = [length[b] for length in lengths]
        cut = tuple(slice(t) for t in real)
        video = replace(
            group,
            queries=[q[b : b + 1] for q in group.queries],
            keys=[k[b : b + 1, :t] for k, t in zip(group.keys, real, strict=True)],
            weights=[w[cut[:l] + cut[l + 1 :]] for l, w in enumerate(group.weights)],
            factors=[f[:, :t] for f, t in zip(group.factors, real, strict=True)],
            masks=None,
        )
        padding = [(0, t - n) for t, n in zip(steps, real, strict=True)]
        alone.append(
            [
                torch.nn.functional.pad(scores, pad, value=float("-inf"))
                for scores, pad in zip(video.scores(kind, backend), padding, strict=True)
            ]
        )

    one_by_one = [torch.cat(scores) for scores in zip(*alone, strict=True)]
    for actual, expected in zip(group.scores(kind, backend), one_by_one, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    inputs = group.inputs(kind)
    summed = torch.autograd.grad(weighing(one_by_one), list(inputs.values()), materialize_grads=True)
    for (name, actual), expected in zip(group.gradients(kind, backend).items(), summed, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")
