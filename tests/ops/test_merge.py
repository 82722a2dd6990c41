"""Eq. 19 by a kernel against the same operation by operation, in float64: values and gradients."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
triton = pytest.importorskip("triton")

from hoca.bench import relative_error  # noqa: E402
from hoca.ops.merge import plain_merged_weights  # noqa: E402
from hoca.ops.merge_kernels import MergedWeights  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, G = 3, 4


@pytest.fixture(autouse=True)
def _kernels_run() -> None:
    if not (torch.cuda.is_available() or triton.knobs.runtime.interpret):
        pytest.skip("triton was imported without its interpreter")


def given(words: int, steps: int) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(words * steps)
    scores = [(3 * torch.randn(B, words, steps, generator=generator)).to(DEVICE).requires_grad_() for _ in range(G)]
    return scores, torch.randn(G, generator=generator).to(DEVICE).requires_grad_()


def holes(steps: int) -> tuple[Tensor, Tensor]:
    """A whole video, one with padding and three of four groups, one that has no step at all."""
    mask = torch.ones(B, steps, dtype=torch.bool, device=DEVICE)
    mask[1, steps // 2 :], mask[2] = False, False
    counts = torch.ones(B, G, dtype=torch.bool, device=DEVICE)
    counts[1, 2], counts[2] = False, False
    return mask, counts


def same(scores: list[Tensor], theta: Tensor, mask: Tensor | None, counts: Tensor | None) -> None:
    found = MergedWeights.apply(theta, mask, counts, *scores)
    exact = [score.detach().double().requires_grad_() for score in scores]
    weight = theta.detach().double().requires_grad_()
    expected = plain_merged_weights(exact, weight, mask, counts)
    upstream = torch.linspace(-1, 2, found.numel(), device=DEVICE).view_as(found)
    mine = torch.autograd.grad((found * upstream).sum(), [theta, *scores])
    theirs = torch.autograd.grad((expected * upstream).sum(), [weight, *exact])
    for a, b in zip((found, *mine), (expected, *theirs), strict=True):
        assert relative_error(a, b) < 1e-5


@pytest.mark.parametrize(("words", "steps"), [(1, 1), (5, 7), (3, 63), (2, 80)])
def test_whole_videos(words: int, steps: int) -> None:
    same(*given(words, steps), None, None)


@pytest.mark.parametrize(("words", "steps"), [(5, 7), (3, 63)])
def test_padding_and_groups_that_do_not_count(words: int, steps: int) -> None:
    scores, theta = given(words, steps)
    mask, counts = holes(steps)
    same(scores, theta, mask, counts)
    alpha = MergedWeights.apply(theta, mask, counts, *scores)
    assert (alpha[1, :, steps // 2 :] == 0).all()
    assert (alpha[2] == 0).all()


def test_garbage_under_the_mask_does_not_matter() -> None:
    scores, theta = given(3, 9)
    mask, counts = holes(9)
    spoilt = []
    for g, score in enumerate(scores):
        unread = ~(mask & counts[:, g, None])[:, None].expand_as(score)
        spoilt.append(score.detach().masked_fill(unread, float("nan")).requires_grad_())
    same(spoilt, theta, mask, counts)
    torch.testing.assert_close(*(MergedWeights.apply(theta, mask, counts, *each) for each in (spoilt, scores)))


def test_without_a_group_that_counts_real_steps_are_even() -> None:
    scores, theta = given(2, 6)
    mask, counts = holes(6)
    even = (mask / mask.sum(1, keepdim=True).clamp(min=1))[:, None].expand(-1, 2, -1)
    torch.testing.assert_close(MergedWeights.apply(theta, mask, counts & False, *scores), even)
    torch.testing.assert_close(plain_merged_weights(scores, theta, mask, counts & False), even)


def test_scores_between_which_others_lie() -> None:
    scores, theta = given(3, 8)
    wide = torch.randn(B, 3, 2 * 8, device=DEVICE, requires_grad=True)
    same([*scores[:3], wide[:, :, ::2].detach().requires_grad_()], theta, None, None)
