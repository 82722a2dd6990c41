"""The range of values in which a network takes pixels and samples, at its first convolution."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hoca.features.backbones import BACKBONES

FIRST = {  # the first unit, the size of small pictures, and what black and white become
    "inception-resnet-v2": ("conv2d_1a", (75, 75), (-1.0, 1.0)),
    "i3d-kinetics-400": ("Conv3d_1a_7x7", (16, 32, 32), (-1.0, 1.0)),
    "i3d-imagenet": ("Conv3d_1a_7x7", (16, 32, 32), (-1.0, 1.0)),
    "efficientnet-lite0": ("stem", (32, 32), (-127 / 128, 1.0)),
}


@pytest.mark.parametrize("name", FIRST)
def test_black_and_white_go_through_the_first_convolution(name: str) -> None:
    """Of a picture of one value x, a window without padding is x · (the sum of a channel's weights) + its bias."""
    unit, sizes, values = FIRST[name]
    network = BACKBONES[name].build().eval().requires_grad_(False)
    first = network.get_submodule(unit)
    seen: list[Tensor] = []
    first.register_forward_hook(lambda *call: seen.append(call[-1].clone()))
    network(torch.stack([torch.zeros(*sizes, 3), torch.full((*sizes, 3), 255.0)]).to(torch.uint8))
    weight, bias = first.parameters()
    for found, value in zip(seen[0], values, strict=True):
        middle = found[(slice(None), *(size // 2 for size in found.shape[1:]))]  # [channels]
        expected = (value * weight.flatten(1).sum(1) + bias).relu()
        torch.testing.assert_close(middle, expected, rtol=1e-4, atol=1e-5)


def test_full_scale_sound_is_256_at_the_first_convolution_of_soundnet() -> None:
    network = BACKBONES["soundnet-8"].build().eval().requires_grad_(False)
    seen: list[Tensor] = []
    network.conv1.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    network(torch.tensor([1.0, -0.5]).repeat(1, 20_000))
    assert seen[0][0, 0, :2].tolist() == [256.0, -128.0]
