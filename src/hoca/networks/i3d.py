"""I3D (Carreira and Zisserman, 2017) on RGB frames: Inception-v1 inflated to three dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.networks.folding import Arrays, fold, fold_torch, from_channels_last
from hoca.networks.padding import same_convolution, same_max_pool3d
from hoca.networks.tape import Tape, packed

EPSILON = 1e-3
CLASSES = 400
MIXED = {  # input channels; channels of 1×1×1 | 1×1×1, 3×3×3 | 1×1×1, 3×3×3 | pool, 1×1×1
    "Mixed_3b": (192, (64, 96, 128, 16, 32, 32)),
    "Mixed_3c": (256, (128, 128, 192, 32, 96, 64)),
    "Mixed_4b": (480, (192, 96, 208, 16, 48, 64)),
    "Mixed_4c": (512, (160, 112, 224, 24, 64, 64)),
    "Mixed_4d": (512, (128, 128, 256, 24, 64, 64)),
    "Mixed_4e": (512, (112, 144, 288, 32, 64, 64)),
    "Mixed_4f": (528, (256, 160, 320, 32, 128, 128)),
    "Mixed_5b": (832, (256, 160, 320, 32, 128, 128)),
    "Mixed_5c": (832, (384, 192, 384, 48, 128, 128)),
}
HALVINGS = ((7, 2), (3, 2), (2, 2))  # kernel and stride in time of the three layers that halve it
TAPE = 1024  # frames on a tape, about 10 GB in bfloat16
TAPES = 64  # frames by which tapes differ in length
SEPARATE = 16  # frames that a clip takes on a tape besides its own, at most

STEM = ("Conv3d_1a_7x7", "Conv3d_2b_1x1", "Conv3d_2c_3x3")
BRANCHES = (  # DeepMind's names, this module's, the common PyTorch port's
    ("Branch_0/Conv3d_0a_1x1", "b0", "b0"),
    ("Branch_1/Conv3d_0a_1x1", "b1a", "b1a"),
    ("Branch_1/Conv3d_0b_3x3", "b1b", "b1b"),
    ("Branch_2/Conv3d_0a_1x1", "b2a", "b2a"),
    ("Branch_2/Conv3d_0b_3x3", "b2b", "b2b"),
    ("Branch_3/Conv3d_0b_1x1", "b3b", "b3b"),
)


class Unit(nn.Module):
    """Convolution with SAME padding, its batch norm folded in, then ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, kernel, stride)

    def forward(self, x: Tensor) -> Tensor:
        return same_convolution(self.conv, x).relu_()


def _as_it_is(x: Tensor) -> Tensor:
    return x


class Mixed(nn.Module):
    """Four branches side by side: 1×1×1; 1×1×1 then 3×3×3, twice; pooled then 1×1×1."""

    def __init__(self, inputs: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.b0 = Unit(inputs, channels[0])
        self.b1a, self.b1b = Unit(inputs, channels[1]), Unit(channels[1], channels[2], 3)
        self.b2a, self.b2b = Unit(inputs, channels[3]), Unit(channels[3], channels[4], 3)
        self.b3b = Unit(inputs, channels[5])

    def forward(self, x: Tensor, clear: Callable[[Tensor], Tensor] = _as_it_is) -> Tensor:
        """clear: sets to zero what is no clip's, on a tape, before a kernel that looks beyond a step."""
        pooled = same_max_pool3d(x, (3, 3, 3), (1, 1, 1))
        b1, b2 = self.b1b(clear(self.b1a(x))), self.b2b(clear(self.b2a(x)))
        return clear(torch.cat([self.b0(x), b1, b2, self.b3b(pooled)], dim=1))


class I3D(nn.Module):
    """Frames uint8 [B, T, 224, 224, 3] → [B, ⌈T/8⌉, 1024]: the last convolution (Mixed_5c), mean over the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv3d_1a_7x7 = Unit(3, 64, 7, 2)
        self.Conv3d_2b_1x1 = Unit(64, 64)
        self.Conv3d_2c_3x3 = Unit(64, 192, 3)
        for name, (inputs, channels) in MIXED.items():
            self.add_module(name, Mixed(inputs, channels))
        self.logits = nn.Conv3d(1024, CLASSES, 1)

    def maps(self, frames: Tensor) -> Tensor:
        """[B, T, h, w, 3] → [B, 1024, ⌈T/8⌉, ⌈h/32⌉, ⌈w/32⌉]."""
        return self._maps(self._scaled(frames))

    def _scaled(self, frames: Tensor) -> Tensor:
        dtype = self.logits.weight.dtype
        return frames.to(torch.float32).div_(127.5).sub_(1).to(dtype)  # in place: 800 frames are half a gigabyte

    def _maps(self, x: Tensor, clear: Callable[[Tensor], Tensor] = _as_it_is) -> Tensor:
        x = x.permute(0, 4, 1, 2, 3)  # [B, 3, T, h, w], channels last
        x = same_max_pool3d(self.Conv3d_1a_7x7(x), (1, 3, 3), (1, 2, 2))
        x = clear(self.Conv3d_2b_1x1(x))
        x = clear(same_max_pool3d(self.Conv3d_2c_3x3(x), (1, 3, 3), (1, 2, 2)))
        for name in MIXED:
            if name == "Mixed_4b":
                x = clear(same_max_pool3d(x, (3, 3, 3), (2, 2, 2)))
            elif name == "Mixed_5b":
                x = clear(same_max_pool3d(x, (2, 2, 2), (2, 2, 2)))
            x = self.get_submodule(name)(x, clear)
        return x

    def forward(self, frames: Tensor) -> Tensor:
        return _means(self.maps(frames))  # [B, T', 1024]

    def together(self, clips: Sequence[Tensor]) -> list[Tensor]:
        """[T, h, w, 3] each → [⌈T/8⌉, 1024] each, as alone, in batches of few shapes: several clips on a tape."""
        made: dict[int, Tensor] = {}
        for numbers in packed([len(clip) + SEPARATE for clip in clips], TAPE):
            tape = Tape([len(clips[number]) for number in numbers], HALVINGS, TAPES)
            x = self.logits.weight.new_zeros((1, tape.length, *clips[numbers[0]].shape[1:]))  # [1, T, h, w, 3]
            for number, spans in zip(numbers, tape.spans, strict=True):
                x[0, slice(*spans[0])] = self._scaled(clips[number])
            (steps,) = _means(self._maps(x, tape.clear))  # [T / 8, 1024]
            made |= {number: steps[slice(*spans[-1])] for number, spans in zip(numbers, tape.spans, strict=True)}
        return [made[number] for number in range(len(clips))]

    def classify(self, frames: Tensor) -> Tensor:
        """[B, T, 224, 224, 3] → logits [B, 400]: pooled over 2 × 7 × 7, averaged over time, as it was trained."""
        pooled = nn.functional.avg_pool3d(self.maps(frames).float(), (2, 7, 7), 1)
        return self.logits(pooled.to(self.logits.weight.dtype)).float().mean((2, 3, 4))


def _means(maps: Tensor) -> Tensor:
    return maps.float().mean((3, 4)).transpose(1, 2)  # [B, T', 1024]


def convert(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The state of `I3D` from the Flax port, DeepMind's TF variables or the common PyTorch port (`rgb_imagenet.pt`)."""
    if any(key.startswith("Mixed_3b.b0.conv3d") for key in arrays):
        return _from_torch(arrays)
    return _from_channels_last({_plain(key): value for key, value in arrays.items()})


def _plain(key: str) -> str:
    """One spelling of the names that end in channels-last arrays: `Mixed_3b/Branch_0/Conv3d_0a_1x1/kernel`."""
    key = re.sub(r"^(v/|module/)?(RGB/|Flow/)?(inception_i3d/|params/|batch_stats/)", "", key).removesuffix(":0")
    key = re.sub(r"/(conv_3d/w|Conv_0/kernel)$", "/kernel", key)
    key = re.sub(r"/(conv_3d/b|Conv_0/bias)$", "/bias", key)
    key = re.sub(r"/(batch_norm|BatchNorm_0)/(beta|bias)$", "/shift", key)
    key = re.sub(r"/(batch_norm|BatchNorm_0)/(moving_)?mean$", "/mean", key)
    return re.sub(r"/(batch_norm|BatchNorm_0)/(moving_variance|var)$", "/variance", key)


def _units() -> list[tuple[str, str, str]]:
    """Every unit as DeepMind, this module and the common PyTorch port call it."""
    units = [(name, name, name) for name in STEM]
    for mixed in MIXED:
        units += [(f"{mixed}/{theirs}", f"{mixed}.{ours}", f"{mixed}.{port}") for theirs, ours, port in BRANCHES]
    # DeepMind misnamed one branch, and everyone who ported the values kept the name or fixed it.
    return units


def _from_channels_last(arrays: Mapping[str, np.ndarray]) -> Arrays:
    state: Arrays = {}
    for theirs, ours, _ in _units():
        if f"{theirs}/kernel" not in arrays and theirs == "Mixed_5b/Branch_2/Conv3d_0b_3x3":
            theirs = "Mixed_5b/Branch_2/Conv3d_0a_3x3"
        weight, bias = fold(
            from_channels_last(arrays[f"{theirs}/kernel"]),
            mean=arrays[f"{theirs}/mean"],
            variance=arrays[f"{theirs}/variance"],
            shift=arrays[f"{theirs}/shift"],
            epsilon=EPSILON,
        )
        state |= {f"{ours}.conv.weight": weight, f"{ours}.conv.bias": bias}
    logits = "Logits/Conv3d_0c_1x1"
    state["logits.weight"] = from_channels_last(arrays[f"{logits}/kernel"]).astype(np.float32)
    state["logits.bias"] = arrays[f"{logits}/bias"].astype(np.float32).reshape(-1)
    return state


def _from_torch(arrays: Mapping[str, np.ndarray]) -> Arrays:
    state: Arrays = {}
    for _, ours, port in _units():
        folded = fold_torch(arrays, f"{port}.conv3d", f"{port}.bn", EPSILON)
        state |= {f"{ours}.conv.{part}": value for part, value in folded.items()}
    for part in ("weight", "bias"):
        state[f"logits.{part}"] = arrays[f"logits.conv3d.{part}"].astype(np.float32)
    if len(state["logits.bias"]) != CLASSES:
        raise UserError(f"this I3D tells {len(state['logits.bias'])} classes apart, expected Kinetics' {CLASSES}")
    return state
