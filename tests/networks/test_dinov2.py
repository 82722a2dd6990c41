"""DINOv2: the equations of the vision transformer, and the three layouts in which its weights are published."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from hoca.networks import dinov2
from hoca.networks.folding import Arrays

WIDTH, DEPTH, HEADS, LEARNED = 12, 2, 3, 7


def tiny(table: int = LEARNED) -> dinov2.DINOv2:
    network = dinov2.DINOv2(WIDTH, DEPTH, HEADS, table).eval().requires_grad_(False)
    for values in network.parameters():
        nn.init.normal_(values, std=0.3)
    return network


def state(network: nn.Module) -> Arrays:
    return {name: value.numpy() for name, value in network.state_dict().items()}


def pictures(side: int) -> torch.Tensor:
    return torch.randint(0, 256, (2, side, side, 3), dtype=torch.uint8)


def norm(x: np.ndarray, weights: Arrays, name: str) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x: np.ndarray, weights: Arrays, name: str) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def between(learned: np.ndarray, side: int) -> np.ndarray:
    """[n, n, width] read between its points, at half-pixel centres: [side, side, width]."""
    n = len(learned)
    places = np.clip((np.arange(side) + 0.5) * n / (side + 0.1) - 0.5, 0, n - 1)
    low = np.minimum(places.astype(int), n - 2)
    part = (places - low)[:, None, None]
    rows = learned[low] * (1 - part) + learned[low + 1] * part  # [side, n, width]
    part = part.transpose(1, 0, 2)
    return rows[:, low] * (1 - part) + rows[:, low + 1] * part


def literal(picture: np.ndarray, weights: Arrays) -> np.ndarray:
    """One picture [side, side, 3] → [2·width], token by token, in float64."""
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    x = (picture / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    side = len(x) // 14
    squares = [x[14 * i : 14 * (i + 1), 14 * j : 14 * (j + 1)] for i in range(side) for j in range(side)]
    kernel = weights["patch_embed.proj.weight"].transpose(0, 2, 3, 1)  # [width, 14, 14, 3]
    patches = [(kernel * square).sum((1, 2, 3)) + weights["patch_embed.proj.bias"] for square in squares]
    positions = weights["pos_embed"][0]
    n = math.isqrt(len(positions) - 1)
    at = positions[1:].reshape(n, n, -1)
    at = (at if n == side else between(at, side)).reshape(side * side, -1)
    tokens = np.stack([weights["cls_token"][0, 0] + positions[0], *(np.stack(patches) + at)])
    for block in (f"blocks.{number}" for number in range(DEPTH)):
        query, key, value = np.split(
            linear(norm(tokens, weights, f"{block}.norm1"), weights, f"{block}.attn.qkv"), 3, 1
        )
        seen = []
        for q, k, v in zip(*(np.split(each, HEADS, 1) for each in (query, key, value)), strict=True):
            shares = np.exp(q @ k.T / math.sqrt(WIDTH / HEADS))
            seen.append(shares / shares.sum(1, keepdims=True) @ v)
        looked = linear(np.concatenate(seen, 1), weights, f"{block}.attn.proj")
        tokens = tokens + weights[f"{block}.ls1.gamma"] * looked
        hidden = linear(norm(tokens, weights, f"{block}.norm2"), weights, f"{block}.mlp.fc1")
        hidden = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
        tokens = tokens + weights[f"{block}.ls2.gamma"] * linear(hidden, weights, f"{block}.mlp.fc2")
    tokens = norm(tokens, weights, "norm")
    return np.concatenate([tokens[0], tokens[1:].mean(0)])


@pytest.mark.parametrize("side", [42, 98, 140])  # fewer patches than positions were learned for, as many, more
def test_the_network_computes_the_equations(side: int) -> None:
    network, batch = tiny(), pictures(side)
    made = network(batch).numpy()
    expected = np.stack([literal(picture.numpy(), state(network)) for picture in batch])
    np.testing.assert_allclose(made, expected, atol=1e-4, rtol=1e-4)


def as_transformers(weights: Arrays) -> Arrays:
    """The names that transformers saves `Dinov2Model` under."""
    arrays: Arrays = {"embeddings.mask_token": np.zeros((1, weights["cls_token"].shape[-1]), np.float32)}
    for name, value in weights.items():
        for theirs, ours in dinov2.TRANSFORMERS.items():
            if theirs != "layernorm." and theirs != "attention.attention.":
                name = name.replace(ours, theirs)
        name = name.replace("norm.", "layernorm.") if name.startswith("norm.") else name
        if ".attn.qkv." in name:
            for part, each in zip(("query", "key", "value"), np.split(value, 3), strict=True):
                arrays[name.replace("attn.qkv", f"attention.attention.{part}")] = each
        else:
            arrays[name] = value
    return arrays


def as_onnx(weights: Arrays) -> Arrays:
    """The names in the export, where the class token's position is the class token itself."""
    arrays = {f"model.{name}": value for name, value in weights.items() if name != "pos_embed"}
    return arrays | {dinov2.ONNX_POSITIONS: weights["pos_embed"][:, 1:]}


def test_all_layouts_give_the_same_weights() -> None:
    network = tiny()
    network.pos_embed[:, :1] = network.cls_token
    weights = state(network)
    upstream = weights | {"mask_token": np.zeros((1, WIDTH), np.float32)}
    named = {f"dinov2.{name}": value for name, value in as_transformers(weights).items()}
    for layout in (upstream, as_onnx(weights), as_transformers(weights), named):
        found = dinov2.convert(layout)
        assert found.keys() == weights.keys()
        assert all(np.array_equal(found[name], weights[name]) for name in weights)


def test_a_network_with_register_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="register tokens"):
        dinov2.convert(state(tiny()) | {"register_tokens": np.zeros((1, 4, WIDTH), np.float32)})


def test_a_model_of_transformers_is_read_as_it_is_saved(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra [hf]")
    from hoca.assets import weight_files

    sizes = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS}
    model = transformers.Dinov2Model(transformers.Dinov2Config(**sizes, image_size=42, layer_norm_eps=1e-6)).eval()
    for values in model.parameters():
        nn.init.normal_(values, std=0.3)
    model.save_pretrained(tmp_path)
    network = dinov2.DINOv2(WIDTH, DEPTH, HEADS, table=3).eval()
    found = dinov2.convert(weight_files.read(tmp_path / "model.safetensors"))
    network.load_state_dict({name: torch.from_numpy(value) for name, value in found.items()})
    batch = pictures(42)
    x = (batch / 255 - torch.tensor(dinov2.MEAN)) / torch.tensor(dinov2.STD)
    with torch.inference_mode():
        tokens = model(pixel_values=x.permute(0, 3, 1, 2)).last_hidden_state
        made = network(batch)
    torch.testing.assert_close(made, torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1), atol=1e-4, rtol=1e-4)
