"""TensorFlow's SAME padding: as many outputs as strides fit, the odd zero of an uneven padding at the end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Convolution = nn.Conv2d | nn.Conv3d


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """How much to add before and after an axis of `size`, so that ⌈size / stride⌉ windows fit."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _paddings(x: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    sizes = x.shape[-len(kernel) :]
    return [same_padding(*axis) for axis in zip(sizes, kernel, stride, strict=True)]


def _pad(x: Tensor, paddings: list[tuple[int, int]], value: float) -> Tensor:
    flat = [amount for both in reversed(paddings) for amount in both]
    return F.pad(x, flat, value=value) if any(flat) else x


def same_convolution(convolution: Convolution, x: Tensor) -> Tensor:
    """`convolution`, whose own padding is 0, over [B, C, …] with SAME padding."""
    paddings = _paddings(x, convolution.kernel_size, convolution.stride)
    apply = F.conv3d if isinstance(convolution, nn.Conv3d) else F.conv2d
    groups, weight, bias = convolution.groups, convolution.weight, convolution.bias
    if all(before == after for before, after in paddings):
        amounts = [before for before, _ in paddings]
        return apply(x, weight, bias, convolution.stride, amounts, groups=groups)  # spares a copy
    return apply(_pad(x, paddings, 0.0), weight, bias, convolution.stride, groups=groups)


def same_max_pool3d(x: Tensor, kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> Tensor:
    """Max over windows of [B, C, T, h, w]; what SAME padding adds never wins."""
    paddings = _paddings(x, kernel, stride)
    if all(before == after for before, after in paddings):
        return F.max_pool3d(x, kernel, stride, [before for before, _ in paddings])
    if all(before == 0 for before, _ in paddings):
        return F.max_pool3d(x, kernel, stride, ceil_mode=True)  # a window may run over the end
    return F.max_pool3d(_pad(x, paddings, torch.finfo(x.dtype).min), kernel, stride)
