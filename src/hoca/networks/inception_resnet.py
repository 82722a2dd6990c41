"""Inception-ResNet-v2 (Szegedy et al., 2017), the paper's image backbone; names as in Cadene's and timm's ports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hoca.networks.folding import Arrays, fold, fold_torch, from_channels_last

EPSILON = 1e-3
WIDTH = 1536
Kernel = int | tuple[int, int]


class Unit(nn.Conv2d):
    """Convolution with its batch norm folded in, then ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: Kernel = 1, *, stride: int = 1, same: bool = True) -> None:
        sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (sizes[0] // 2, sizes[1] // 2) if same else (0, 0)
        super().__init__(inputs, outputs, sizes, stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu_()


class Pool(nn.Module):
    """Mean over 3 × 3; what lies outside the picture does not count."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class Branches(nn.Module):
    """Several ways side by side, their channels joined."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        for number, branch in enumerate(branches):
            self.add_module(f"branch{number}", branch)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.children()], dim=1)


class Residual(Branches):
    """x + scale · (a linear mix of the branches), then ReLU unless it is the last one."""

    def __init__(self, *branches: nn.Module, mix: tuple[int, int], scale: float, last: bool = False) -> None:
        super().__init__(*branches)
        self.conv2d = nn.Conv2d(*mix, 1)
        self.scale, self.last = scale, last

    def forward(self, x: Tensor) -> Tensor:
        branches = [branch for name, branch in self.named_children() if name.startswith("branch")]
        y = x + self.scale * self.conv2d(torch.cat([branch(x) for branch in branches], dim=1))
        return y if self.last else y.relu_()


def _block35() -> Residual:
    return Residual(
        Unit(320, 32),
        nn.Sequential(Unit(320, 32), Unit(32, 32, 3)),
        nn.Sequential(Unit(320, 32), Unit(32, 48, 3), Unit(48, 64, 3)),
        mix=(128, 320),
        scale=0.17,
    )


def _block17() -> Residual:
    long = nn.Sequential(Unit(1088, 128), Unit(128, 160, (1, 7)), Unit(160, 192, (7, 1)))
    return Residual(Unit(1088, 192), long, mix=(384, 1088), scale=0.10)


def _block8(last: bool = False) -> Residual:
    long = nn.Sequential(Unit(2080, 192), Unit(192, 224, (1, 3)), Unit(224, 256, (3, 1)))
    return Residual(Unit(2080, 192), long, mix=(448, 2080), scale=1.0 if last else 0.20, last=last)


class InceptionResNetV2(nn.Module):
    """Pictures uint8 [F, 299, 299, 3] → [F, 1536]: the last convolution, mean over the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.conv2d_1a = Unit(3, 32, 3, stride=2, same=False)
        self.conv2d_2a = Unit(32, 32, 3, same=False)
        self.conv2d_2b = Unit(32, 64, 3)
        self.maxpool_3a = nn.MaxPool2d(3, 2)
        self.conv2d_3b = Unit(64, 80)
        self.conv2d_4a = Unit(80, 192, 3, same=False)
        self.maxpool_5a = nn.MaxPool2d(3, 2)
        self.mixed_5b = Branches(
            Unit(192, 96),
            nn.Sequential(Unit(192, 48), Unit(48, 64, 5)),
            nn.Sequential(Unit(192, 64), Unit(64, 96, 3), Unit(96, 96, 3)),
            nn.Sequential(Pool(), Unit(192, 64)),
        )
        self.repeat = nn.Sequential(*(_block35() for _ in range(10)))
        self.mixed_6a = Branches(
            Unit(320, 384, 3, stride=2, same=False),
            nn.Sequential(Unit(320, 256), Unit(256, 256, 3), Unit(256, 384, 3, stride=2, same=False)),
            nn.MaxPool2d(3, 2),
        )
        self.repeat_1 = nn.Sequential(*(_block17() for _ in range(20)))
        self.mixed_7a = Branches(
            nn.Sequential(Unit(1088, 256), Unit(256, 384, 3, stride=2, same=False)),
            nn.Sequential(Unit(1088, 256), Unit(256, 288, 3, stride=2, same=False)),
            nn.Sequential(Unit(1088, 256), Unit(256, 288, 3), Unit(288, 320, 3, stride=2, same=False)),
            nn.MaxPool2d(3, 2),
        )
        self.repeat_2 = nn.Sequential(*(_block8() for _ in range(9)))
        self.block8 = _block8(last=True)
        self.conv2d_7b = Unit(2080, WIDTH)

    def forward(self, pictures: Tensor) -> Tensor:
        x = pictures.to(torch.float32) / 127.5 - 1
        x = x.to(self.conv2d_7b.weight.dtype).permute(0, 3, 1, 2)  # [F, 3, 299, 299], channels last
        for part in self.children():
            x = part(x)
        return x.float().mean((2, 3))


def convert(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The state of `InceptionResNetV2` from timm's and Cadene's names, or from Keras' HDF5 file."""
    return _from_torch(arrays) if "conv2d_1a.conv.weight" in arrays else _from_keras(arrays)


def _convolutions() -> Iterator[tuple[str, bool]]:
    """Every convolution in the order in which all ports make them, and whether a batch norm follows it."""
    with torch.device("meta"):
        network = InceptionResNetV2()
    for name, part in network.named_modules():
        if isinstance(part, nn.Conv2d):
            yield name, isinstance(part, Unit)


def _from_torch(arrays: Mapping[str, np.ndarray]) -> Arrays:
    state: Arrays = {}
    for name, normed in _convolutions():
        if normed:
            folded = fold_torch(arrays, f"{name}.conv", f"{name}.bn", EPSILON)
        else:
            folded = {part: arrays[f"{name}.{part}"] for part in ("weight", "bias")}
        state |= {f"{name}.{part}": value for part, value in folded.items()}
    return state


def _from_keras(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Keras numbers its layers as it makes them (`conv2d_7`, `batch_normalization_7`) and names the residual mixes."""
    layers: dict[str, Arrays] = {}
    for path, value in arrays.items():
        parts = path.removeprefix("model_weights/").split("/")
        layers.setdefault(parts[0], {})[parts[-1].removesuffix(":0")] = value
    convolutions, norms = _numbered(layers, "conv2d"), _numbered(layers, "batch_normalization")
    mixes = [
        f"block{size}_{number + 1}_conv" for size, count in ((35, 10), (17, 20), (8, 10)) for number in range(count)
    ]
    state: Arrays = {}
    for name, normed in _convolutions():
        if not normed:
            mix = layers[mixes.pop(0)]
            weight, bias = from_channels_last(mix["kernel"]), mix["bias"]
        else:
            last = name == "conv2d_7b"
            norm = layers["conv_7b_bn"] if last else layers[norms.pop(0)]
            weight, bias = fold(
                from_channels_last((layers["conv_7b"] if last else layers[convolutions.pop(0)])["kernel"]),
                mean=norm["moving_mean"],
                variance=norm["moving_variance"],
                scale=norm.get("gamma"),
                shift=norm["beta"],
                epsilon=EPSILON,
            )
        state |= {f"{name}.weight": weight, f"{name}.bias": bias}
    return state


def _numbered(layers: Mapping[str, Arrays], kind: str) -> list[str]:
    """`conv2d`, `conv2d_1`, `conv2d_2`, …: the layers of a kind in the order of their making."""
    found = [name for name in layers if re.fullmatch(rf"{kind}(_\d+)?", name)]
    return sorted(found, key=lambda name: int(name.removeprefix(kind).removeprefix("_") or 0))
