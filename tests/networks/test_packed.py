"""Layers in oneDNN compute what torch's own do, alone and within DINOv2."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hoca.networks.packed import PackedLinear, onednn_is_available

from .test_dinov2 import pictures, tiny

pytestmark = pytest.mark.skipif(not onednn_is_available(), reason="this build of torch has no oneDNN")


@pytest.mark.parametrize("shape", [(1, 7), (3, 5, 7), (2, 257, 64)])
def test_a_packed_layer_is_the_layer(shape: tuple[int, ...]) -> None:
    layer, x, scale = nn.Linear(shape[-1], 13), torch.randn(shape), torch.randn(13)
    plus = torch.randn(*shape[:-1], 13)
    with torch.inference_mode():
        expected = layer(x)
        torch.testing.assert_close(PackedLinear(layer)(x), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(PackedLinear(layer, gelu=True)(x), F.gelu(expected), atol=1e-5, rtol=1e-5)
        scaled = PackedLinear(layer, scale=scale)
        torch.testing.assert_close(scaled(x), scale * expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scaled(x, plus=plus), plus + scale * expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("side", [42, 98])
def test_a_packed_network_gives_the_same_features(side: int) -> None:
    network, batch = tiny(), pictures(side)
    packed = copy.deepcopy(network)
    packed.pack()
    assert not any(isinstance(part, nn.Linear) for part in packed.modules())
    with torch.inference_mode():
        torch.testing.assert_close(packed(batch), network(batch), atol=1e-5, rtol=1e-5)


def test_a_build_without_onednn_computes_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch = tiny(), pictures(42)
    expected = network(batch)
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    network.pack()
    assert torch.equal(network(batch), expected)
