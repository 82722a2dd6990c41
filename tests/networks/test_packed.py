"""Layers in oneDNN compute what torch's own do, alone and within DINOv2."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hoca.networks.dinov2 import attend, attend_by_products
from hoca.networks.packed import PackedLinear, onednn_is_available

from .test_dinov2 import pictures, tiny

pytestmark = pytest.mark.skipif(not onednn_is_available(torch.float32), reason="this build of torch has no oneDNN")


@pytest.mark.parametrize("shape", [(1, 7), (3, 5, 7), (2, 257, 64)])
def test_a_packed_layer_is_the_layer(shape: tuple[int, ...]) -> None:
    layer, x, scale = nn.Linear(shape[-1], 13), torch.randn(shape), torch.randn(13)
    plus = torch.randn(*shape[:-1], 13)
    with torch.inference_mode():
        expected = layer(x)
        plain, activated = PackedLinear(layer, torch.float32), PackedLinear(layer, torch.float32, gelu=True)
        torch.testing.assert_close(plain(x), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(activated(x), F.gelu(expected), atol=1e-5, rtol=1e-5)
        scaled = PackedLinear(layer, torch.float32, scale=scale)
        torch.testing.assert_close(scaled(x), scale * expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scaled(x, plus=plus), plus + scale * expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("side", [42, 98])
def test_a_packed_network_gives_the_same_features(side: int) -> None:
    network, batch = tiny(), pictures(side)
    packed = copy.deepcopy(network)
    packed.pack(torch.float32)
    assert not any(isinstance(part, nn.Linear) for part in packed.modules())
    with torch.inference_mode():
        torch.testing.assert_close(packed(batch), network(batch), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_to_pack_a_network_again_changes_nothing(dtype: torch.dtype) -> None:
    network, batch = tiny(), pictures(42)
    network.pack(torch.float32)
    with torch.inference_mode():
        expected = network(batch)
        network.pack(dtype)
        assert torch.equal(network(batch), expected)


def test_a_scaled_layer_in_bfloat16_is_rounded_once() -> None:
    if not onednn_is_available(torch.bfloat16):
        pytest.skip("oneDNN has no bfloat16 on this processor")
    layer, scale = nn.Linear(64, 64), torch.rand(64) + 0.5
    nn.init.zeros_(layer.bias)
    with torch.inference_mode():
        found = PackedLinear(layer, torch.bfloat16, scale=scale)(torch.eye(64, dtype=torch.bfloat16))
    assert torch.equal(found, (layer.weight * scale[:, None]).bfloat16().T)


def test_a_packed_network_in_bfloat16_is_as_close_to_float32_as_a_plain_one() -> None:
    if not onednn_is_available(torch.bfloat16):
        pytest.skip("oneDNN has no bfloat16 on this processor")
    exact, batch = tiny(), pictures(98)
    plain, packed = copy.deepcopy(exact).bfloat16(), copy.deepcopy(exact)
    packed.pack(torch.bfloat16)
    with torch.inference_mode():
        expected, errors = exact(batch), []
        for network in (plain, packed):
            errors.append(float((network(batch) - expected).norm() / expected.norm()))
    assert errors[1] < 1.5 * errors[0] < 0.05


@pytest.mark.parametrize("shape", [(1, 3, 2, 5), (2, 50, 6, 64)])
def test_attention_by_products_is_attention(shape: tuple[int, int, int, int]) -> None:
    videos, tokens, heads, width = shape
    qkv = torch.randn(videos, tokens, 3 * heads * width)
    torch.testing.assert_close(attend_by_products(qkv, heads), attend(qkv, heads), atol=1e-5, rtol=1e-5)


def test_what_all_keys_have_in_common_costs_no_digits_of_bfloat16() -> None:
    """Scores of 128 to 256 lie on whole numbers in bfloat16."""
    query, value, key = torch.randn(3, 1, 50, 64)
    qkv = torch.cat([query, key + 400 * query.mean(1, keepdim=True), value], dim=-1).bfloat16()
    expected = attend(qkv.float(), 1)
    assert float((attend_by_products(qkv, 1).float() - expected).abs().max()) < 0.05


def test_a_build_without_onednn_computes_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch = tiny(), pictures(42)
    expected = network(batch)
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    network.pack(torch.float32)
    assert torch.equal(network(batch), expected)
