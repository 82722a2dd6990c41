"""The kernels around the output layer against plain torch: on the GPU where there is one, interpreted elsewhere."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
triton = pytest.importorskip("triton")

from hoca.bench import relative_error  # noqa: E402
from hoca.ops.cross_entropy import cross_entropy  # noqa: E402
from hoca.ops.cross_entropy_kernels import BLOCK, CrossEntropy  # noqa: E402
from hoca.ops.weighted import side_by_side  # noqa: E402
from hoca.ops.weighted_kernels import SideBySide  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PAD = 0


@pytest.fixture(autouse=True)
def _kernels_run() -> None:
    if not (torch.cuda.is_available() or triton.knobs.runtime.interpret):
        pytest.skip("triton was imported without its interpreter")


def same(found: list[Tensor], expected: list[Tensor], bound: float = 1e-5) -> None:
    for a, b in zip(found, expected, strict=True):
        assert relative_error(a, b) < bound


@pytest.mark.parametrize("words", [7, BLOCK - 1, 2 * BLOCK + 3])
def test_losses_and_gradients_are_those_of_torch(words: int) -> None:
    logits = (5 * torch.randn(4, words + 5, device=DEVICE)).requires_grad_()
    targets = torch.tensor([1, PAD, words - 1, 3], device=DEVICE)
    upstream = torch.randn(4, device=DEVICE)
    cut = logits[:, :words]  # rows that are farther apart than they are long
    found, expected = (
        CrossEntropy.apply(cut, targets, PAD),
        F.cross_entropy(cut, targets, ignore_index=PAD, reduction="none"),
    )
    assert found[1] == 0
    gradients = [torch.autograd.grad(loss, logits, upstream)[0] for loss in (found, expected)]
    same([found, gradients[0]], [expected, gradients[1]])


def test_columns_of_minus_infinity_are_no_words() -> None:
    logits = torch.randn(3, 6, device=DEVICE)
    targets = torch.tensor([1, 4, 5], device=DEVICE)
    wide = F.pad(logits, (0, BLOCK), value=float("-inf")).requires_grad_()
    found = CrossEntropy.apply(wide, targets, PAD)
    same([found], [F.cross_entropy(logits, targets, reduction="none")])
    (gradient,) = torch.autograd.grad(found.sum(), wide)
    assert bool((gradient[:, 6:] == 0).all())
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_bf16_scores_have_losses_of_float32() -> None:
    logits = torch.randn(30, 10552, device=DEVICE).bfloat16()
    targets = torch.randint(1, 10552, (30,), device=DEVICE)
    found = cross_entropy(logits, targets, PAD)
    assert found.dtype == torch.float32
    same([found], [F.cross_entropy(logits.double(), targets, reduction="none")], 1e-6)


def test_weighted_contexts_are_those_of_torch() -> None:
    hidden = torch.randn(2, 3, 6, device=DEVICE, requires_grad=True)
    contexts = [torch.randn(2, 3, 10, device=DEVICE, requires_grad=True) for _ in range(3)]
    beta = torch.rand(2, 3, 3, device=DEVICE, requires_grad=True)
    inputs, shares = [hidden, *contexts, beta], beta.unbind(-1)
    found = SideBySide.apply(hidden, *(x for pair in zip(contexts, shares, strict=True) for x in pair))
    expected = torch.cat([hidden, *(s[..., None] * c for c, s in zip(contexts, shares, strict=True))], dim=-1)
    upstream = torch.randn_like(expected)
    same(
        [found, *torch.autograd.grad(found, inputs, upstream)],
        [expected, *torch.autograd.grad(expected, inputs, upstream)],
    )


def test_absent_contexts_are_zero_and_count_fully_without_a_share() -> None:
    hidden, context = torch.randn(2, 3, 6, device=DEVICE), torch.randn(2, 3, 10, device=DEVICE)
    found = side_by_side(hidden, [None, context], [None, None], 10)
    torch.testing.assert_close(found, torch.cat([hidden, torch.zeros_like(context), context], dim=-1))


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_weighted_contexts_of_bf16_are_rounded_once() -> None:
    hidden = torch.randn(25, 30, 512, device=DEVICE).bfloat16()
    contexts = [torch.randn(25, 30, 1024, device=DEVICE).bfloat16() for _ in range(3)]
    shares = torch.rand(25, 30, 3, device=DEVICE).unbind(-1)
    expected = torch.cat(
        [hidden, *((s[..., None] * c).bfloat16() for c, s in zip(contexts, shares, strict=True))], dim=-1
    )
    assert torch.equal(side_by_side(hidden, contexts, list(shares), 1024), expected)
