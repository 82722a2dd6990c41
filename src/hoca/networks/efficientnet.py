"""EfficientNet-Lite (Tan and Le, 2019, without squeeze-and-excitation, ReLU6 throughout), trained on ImageNet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from hoca.networks.folding import Arrays, fold_torch
from hoca.networks.padding import same_convolution

EPSILON = 1e-3
WIDTH = 1280
CLASSES = 1000
STAGES = (  # repeats, kernel, stride, expansion, channels of EfficientNet-B0
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


@dataclass(frozen=True)
class Scale:
    width: float
    depth: float
    side: int  # of the pictures it was trained on


SCALES = (Scale(1.0, 1.0, 224), Scale(1.0, 1.1, 240), Scale(1.1, 1.2, 260))  # lite0, lite1, lite2


class Unit(nn.Module):
    """Convolution with SAME padding, its batch norm folded in; ReLU6 unless it is linear."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, *, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu6(self.linear(x), inplace=True)

    def linear(self, x: Tensor) -> Tensor:
        return same_convolution(self.conv, x)


class Block(nn.Module):
    """Inverted bottleneck: widen, filter each channel, narrow; added to its input where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = Unit(inputs, inner) if expansion > 1 else nn.Identity()
        self.depthwise = Unit(inner, inner, kernel, stride, groups=inner)
        self.project = Unit(inner, outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.project.linear(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class EfficientNetLite(nn.Module):
    """Pictures uint8 [F, side, side, 3] → [F, 1280]: the last convolution, mean over the picture."""

    def __init__(self, lite: int = 2) -> None:
        """lite: 0, 1 or 2."""
        super().__init__()
        scale = SCALES[lite]
        self.stem = Unit(3, 32, 3, 2)
        blocks: list[Block] = []
        inputs = 32
        for number, (repeats, kernel, stride, expansion, channels) in enumerate(STAGES):
            outer = number in (0, len(STAGES) - 1)  # Lite keeps the first and the last stage as deep as they are
            outputs = _round_channels(channels * scale.width)
            for repeat in range(repeats if outer else math.ceil(repeats * scale.depth)):
                blocks.append(Block(inputs, outputs, kernel, stride if repeat == 0 else 1, expansion))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = Unit(inputs, WIDTH)
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        x = (pictures.to(torch.float32) - 127) / 128
        x = x.to(self.classifier.weight.dtype).permute(0, 3, 1, 2)  # [F, 3, side, side], channels last
        return self.head(self.blocks(self.stem(x))).float().mean((2, 3))

    def classify(self, pictures: Tensor) -> Tensor:
        """[F, side, side, 3] → logits [F, 1000] of ImageNet's classes."""
        return self.classifier(self.forward(pictures).to(self.classifier.weight.dtype)).float()


def _round_channels(channels: float, divisor: int = 8) -> int:
    """To the nearest multiple of 8, and one more if that takes away over a tenth."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def convert(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The state of `EfficientNetLite` from the published PyTorch checkpoints (`_conv_stem`, `_blocks.0._bn1`, …)."""
    units = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    for number in sorted({int(key.split(".")[1]) for key in arrays if key.startswith("_blocks.")}):
        there, here = f"_blocks.{number}", f"blocks.{number}"
        if f"{there}._expand_conv.weight" in arrays:
            units[f"{here}.expand"] = (f"{there}._expand_conv", f"{there}._bn0")
        units[f"{here}.depthwise"] = (f"{there}._depthwise_conv", f"{there}._bn1")
        units[f"{here}.project"] = (f"{there}._project_conv", f"{there}._bn2")
    state: Arrays = {}
    for unit, (convolution, norm) in units.items():
        folded = fold_torch(arrays, convolution, norm, EPSILON)
        state |= {f"{unit}.conv.{part}": value for part, value in folded.items()}
    return state | {f"classifier.{part}": arrays[f"_fc.{part}"] for part in ("weight", "bias")}
