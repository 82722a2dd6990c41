"""Products of split float32 numbers against float64: on the GPU where there is one, interpreted elsewhere."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
pytest.importorskip("triton")

from hoca.bench import relative_error
from hoca.ops import linear as module
from hoca.ops.linear import SplitLinear, linear
from hoca.ops.split_kernel import split

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def results(call: object, x: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor) -> list[Tensor]:
    """Value and gradients."""
    inputs = [tensor.detach().requires_grad_() for tensor in (x, weight, bias)]
    found = call(*inputs)  # type: ignore[operator]
    return [found.detach(), *torch.autograd.grad(found, inputs, gradient)]


@pytest.mark.parametrize("axis", [0, 1])
def test_halves_add_up(axis: int) -> None:
    x = normal(7, 33) * 10.0 ** normal(7, 33, seed=1).round()
    high, both = split(x, axis, low_first=False)
    first, low = both.chunk(2, dim=axis)
    assert (high.view(torch.int32) & 0x1FFF == 0).all()
    torch.testing.assert_close(first.float(), high, rtol=2.0**-7, atol=0.0)  # the interpreter cuts bf16 off
    assert (low.abs() <= 2.0**-11 * x.abs()).all()
    assert ((high.double() + low.double() - x.double()).abs() <= 2.0**-18 * x.double().abs()).all()
    turned = split(x.t(), 1 - axis, low_first=True)
    assert torch.equal(turned[0], high.t())
    assert torch.equal(turned[1], torch.cat([low, first], dim=axis).t())


@pytest.mark.parametrize("value", [float("inf"), float("nan")], ids=str)
def test_what_is_not_finite_spoils_its_own_row_alone(value: float) -> None:
    x = normal(3, 4)
    x[1, 2] = value
    found = SplitLinear.apply(x, normal(5, 4), None)
    assert not found[1].isfinite().any()
    assert found[[0, 2]].isfinite().all()


def test_value_and_gradients_are_near_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many terms are summed."""
    if DEVICE == "cpu":
        monkeypatch.setattr(module, "PIECE", 32)
    sizes = (300, 3600, 10552) if DEVICE == "cuda" else (5, 70, 9)
    arguments = [normal(sizes[0], sizes[1]), normal(sizes[2], sizes[1], seed=1), normal(sizes[2], seed=2)]
    arguments.append(normal(sizes[0], sizes[2], seed=3))
    expected = results(F.linear, *[argument.double() for argument in arguments])
    for found, exact in zip(results(SplitLinear.apply, *arguments), expected, strict=True):
        assert relative_error(found, exact) <= 5e-6


def test_small_and_other_products_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SplitLinear", None)  # called, it would fail
    x, weight = normal(2, 3, 4), normal(5, 4)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
    monkeypatch.setattr(module, "WORTHWHILE", 0)
    monkeypatch.setattr(module, "MANY", 0)
    for dtype in (torch.float64, torch.bfloat16):
        assert linear(x.to(dtype), weight.to(dtype)).dtype == dtype
    with module.tf32(allowed=True):
        linear(x, weight)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16


@needs_gpu
def test_large_products_on_a_gpu_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTHWHILE", 0)
    monkeypatch.setattr(module, "MANY", 0)
    x, weight, bias = normal(2, 30, 40), normal(50, 40, seed=1), normal(50, seed=2)
    found = linear(x, weight, bias)
    assert found.shape == (2, 30, 50)
    assert relative_error(found, F.linear(x.double(), weight.double(), bias.double())) <= 1e-6
