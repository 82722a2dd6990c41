"""DINOv2 (Oquab et al., 2023), the vision transformer ViT-S/14: one vector for the picture, one for its parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hoca.networks.folding import Arrays
from hoca.networks.packed import PackedLinear, onednn_is_available

SIDE = 224  # of the pictures
PATCH = 14
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, from 0 to 1
EPSILON = 1e-6
EXTRA = 0.1  # added to the number of patches a side when positions are resized, as upstream does


class LayerScale(nn.Module):
    """A learned factor for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Attention(nn.Module):
    """Every token looks at every other: [B, N, width] → [B, N, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(attend(self.qkv(x), self.heads))


def attend(qkv: Tensor, heads: int) -> Tensor:
    """What each token sees of all: queries, keys and values side by side [B, N, 3·width] → [B, N, width]."""
    query, key, value = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)  # [B, heads, N, d]
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def attend_by_products(qkv: Tensor, heads: int) -> Tensor:
    """As `attend`, in half of its time where a CPU computes in bfloat16.

    Keys are taken relative to their mean: that changes no weight, and smaller scores keep more digits in bfloat16.
    """
    query, key, value = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4).contiguous().flatten(1, 2)
    key = key - key.mean(1, keepdim=True)  # [B · heads, N, d]
    weights = torch.softmax((query * query.shape[-1] ** -0.5) @ key.transpose(1, 2), dim=-1)
    return (weights @ value).unflatten(0, (-1, heads)).transpose(1, 2).flatten(2)


class MLP(nn.Module):
    """The same for each token by itself: [B, N, width] → [B, N, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """x + γ₁·attention(norm(x)), then x + γ₂·MLP(norm(x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, EPSILON)
        self.attn = Attention(width, heads)
        self.ls1 = LayerScale(width)
        self.norm2 = nn.LayerNorm(width, EPSILON)
        self.mlp = MLP(width)
        self.ls2 = LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class PackedBlock(nn.Module):
    """What a block computes, its layer scales within the weights, GELU and sums within oneDNN's products."""

    def __init__(self, block: Block, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = block.norm1, block.norm2, block.attn.heads
        self.attend = attend if dtype == torch.float32 else attend_by_products
        self.qkv = PackedLinear(block.attn.qkv, dtype)
        self.proj = PackedLinear(block.attn.proj, dtype, scale=block.ls1.gamma)
        self.fc1 = PackedLinear(block.mlp.fc1, dtype, gelu=True)
        self.fc2 = PackedLinear(block.mlp.fc2, dtype, scale=block.ls2.gamma)

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(self.attend(self.qkv(self.norm1(x)), self.heads), plus=x)
        return self.fc2(self.fc1(self.norm2(x)), plus=x)


class DINOv2(nn.Module):
    """Pictures uint8 [F, 224, 224, 3] → [F, 768]: the class token, then the mean of the patches. Upstream's names."""

    def __init__(self, width: int = 384, depth: int = 12, heads: int = 6, table: int = 37) -> None:
        """table: patches a side of the pictures that the positions were learned on."""
        super().__init__()
        self.table = table
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + table * table, width))
        self.patch_embed = nn.Sequential(OrderedDict(proj=nn.Conv2d(3, width, PATCH, PATCH)))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, EPSILON)

    def pack(self, dtype: torch.dtype) -> None:
        """From now on compute on a CPU alone, in this type, without gradients: the same features, sooner.

        A packed network cannot be copied, pickled, converted or trained, and its packed weights are not in its
        `state_dict`. To pack it again does nothing.
        """
        if any(isinstance(block, PackedBlock) for block in self.blocks):
            return
        if onednn_is_available(dtype):
            self.blocks = nn.Sequential(*(PackedBlock(cast(Block, block), dtype) for block in self.blocks))
        self.to(dtype)

    def forward(self, pictures: Tensor) -> Tensor:
        x = pictures.to(torch.float32) / 255
        x = (x - x.new_tensor(MEAN)) / x.new_tensor(STD)
        patches = self.patch_embed(x.to(self.cls_token.dtype).permute(0, 3, 1, 2))  # [F, width, side, side]
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), patches.flatten(2).transpose(1, 2)], dim=1)
        tokens = self.norm(self.blocks(tokens + self.positions(patches.shape[-1]))).float()  # [F, 1 + side², width]
        return torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], dim=1)

    def positions(self, side: int) -> Tensor:
        """The learned positions for side × side patches [1, 1 + side², width]; resized bilinearly if not learned."""
        if side == self.table:
            return self.pos_embed
        learned = self.pos_embed[:, 1:].float().unflatten(1, (self.table, self.table)).permute(0, 3, 1, 2)
        scale = (side + EXTRA) / self.table
        resized = F.interpolate(learned, scale_factor=(scale, scale), mode="bilinear")  # [1, width, side, side]
        patches = resized.flatten(2).transpose(1, 2).to(self.pos_embed.dtype)
        return torch.cat([self.pos_embed[:, :1], patches], dim=1)


ONNX_POSITIONS = "onnx::Reshape_1360"
TRANSFORMERS = {  # a part of transformers' names → upstream's
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "encoder.layer.": "blocks.",
    "attention.attention.": "attn.",
    "attention.output.dense": "attn.proj",
    "layer_scale1.lambda1": "ls1.gamma",
    "layer_scale2.lambda1": "ls2.gamma",
    "layernorm.": "norm.",
}
LAYERS = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")


def convert(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The state of `DINOv2` from its ONNX export, upstream's checkpoint or one of transformers."""
    if any("register_tokens" in name for name in arrays):
        raise ValueError("it has register tokens, which this network has not")
    if ONNX_POSITIONS in arrays:
        arrays = _from_onnx(arrays)
    elif any(name.endswith("embeddings.cls_token") for name in arrays):
        arrays = _from_transformers(arrays)
    depth = len({name.split(".")[1] for name in arrays if name.startswith("blocks.")})
    layers = ["patch_embed.proj", "norm", *(f"blocks.{n}.{layer}" for n in range(depth) for layer in LAYERS)]
    names = ["cls_token", "pos_embed", *(f"blocks.{n}.{scale}.gamma" for n in range(depth) for scale in ("ls1", "ls2"))]
    names += [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
    return {name: arrays[name] for name in names}  # the token for hidden patches serves training alone


def _from_onnx(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The export holds one array for the class token and for its position, which are equal."""
    plain = {name.removeprefix("model."): value for name, value in arrays.items()}
    return plain | {"pos_embed": np.concatenate([plain["cls_token"], plain[ONNX_POSITIONS]], axis=1)}


def _from_transformers(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Query, key and value are three layers there and one here."""
    plain: Arrays = {}
    for name, value in arrays.items():
        name = name.removeprefix("dinov2.")
        for theirs, ours in TRANSFORMERS.items():
            name = name.replace(theirs, ours)
        plain[name] = value
    for name in [name for name in plain if ".attn.query." in name]:
        parts = [plain[name.replace("query", part)] for part in ("query", "key", "value")]
        plain[name.replace("query", "qkv")] = np.concatenate(parts)
    return plain
