"""Products with copies of the weights are autocast's; the gradients are not rounded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hoca.bench import relative_error
from hoca.ops.copies import Copies, columns, copy_of, keeping_copies, kept
from hoca.ops.linear import Linear

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def layers(*sizes: int, bias: bool = True) -> list[nn.Linear]:
    return [Linear(16, size, bias=bias, device=DEVICE) for size in sizes]


def gradients(outputs: list[Tensor], of: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad([x.float().sin().sum() for x in outputs], of))


@pytest.mark.parametrize("bias", [True, False])
def test_values_are_autocasts_and_gradients_those_of_float32(bias: bool) -> None:
    (layer,) = layers(8, bias=bias)
    x = torch.randn(2, 5, 16, device=DEVICE, requires_grad=True)
    inputs = [x, *layer.parameters()]
    expected = gradients([layer(x)], inputs)
    with torch.autocast(DEVICE.type, torch.bfloat16), Copies(DEVICE) as copies:
        plain = layer(x)
        copies.make([layer])
        found = layer(x)
    torch.testing.assert_close(found, plain)
    of_copy, of_cast = gradients([found], inputs), gradients([plain], inputs)
    assert [g.dtype for g in of_copy] == [torch.float32] * len(inputs)
    for copied, cast, value in zip(of_copy, of_cast, expected, strict=True):
        assert relative_error(copied, value) < min(2e-2, 1.1 * relative_error(cast, value))


def test_layers_of_one_input_are_one_product() -> None:
    many = layers(8, 24)
    x = torch.randn(3, 16, device=DEVICE, requires_grad=True)
    inputs = [x, *(p for layer in many for p in layer.parameters())]
    with torch.autocast(DEVICE.type, torch.bfloat16), Copies(DEVICE) as copies:
        alone = [part for parts in columns(x, many, 4) for part in parts]
        copies.make(many)
        together = [part for parts in columns(x, many, 4) for part in parts]
        assert copy_of([many[0].weight]) is None
    assert [len(alone), len(together)] == [8, 8]
    for found, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(found, expected)
    # One that is not used has a gradient of zero.
    for found, expected in zip(gradients(together[:-1], inputs), gradients(alone[:-1], inputs), strict=True):
        assert relative_error(found, expected) < 2e-2


def test_more_rows_score_minus_infinity_and_take_no_gradient() -> None:
    (layer,) = layers(5)
    x = torch.randn(3, 16, device=DEVICE, requires_grad=True)
    with torch.autocast(DEVICE.type, torch.bfloat16), Copies(DEVICE) as copies:
        expected = layer(x)
        copies.make([layer], alignment=8)
        found = layer(x)
    assert found.shape == (3, 8)
    assert bool((found[:, 5:] == float("-inf")).all())
    torch.testing.assert_close(found[:, :5], expected)
    inputs = [x, layer.weight, layer.bias]
    for a, b in zip(gradients([found.softmax(-1)], inputs), gradients([expected.softmax(-1)], inputs), strict=True):
        assert relative_error(a, b) < 3e-2


def test_copies_end_with_their_block_and_need_autocast() -> None:
    (layer,) = layers(4)
    with Copies(DEVICE) as copies:
        copies.make([layer])
        assert copy_of([layer.weight]) is None
    with torch.autocast(DEVICE.type, torch.bfloat16), Copies(DEVICE) as copies:
        copies.make([layer])
        assert copy_of([layer.weight]) is not None
    assert copy_of([layer.weight]) is None


def test_what_is_kept_is_made_once_within_the_block_and_anew_outside() -> None:
    weight, made = torch.ones(3), []

    def copy() -> Tensor:
        made.append(weight.clone())
        return made[-1]

    with keeping_copies():
        assert kept(copy, weight, "a") is kept(copy, weight, "a")
        assert kept(copy, weight, "b") is not kept(copy, weight, "a")
        with keeping_copies():
            kept(copy, weight, "a")
    assert len(made) == 3
    assert kept(copy, weight, "a") is not kept(copy, weight, "a")


def test_the_id_of_a_weight_that_is_gone_is_no_other_s() -> None:
    with keeping_copies():
        for value in range(20):
            weight = torch.full((1,), float(value))
            assert kept(weight.clone, weight) == value
            del weight
