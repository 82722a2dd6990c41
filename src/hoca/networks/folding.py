"""Weights that come as numpy arrays: a batch norm after a convolution becomes part of it, axes become torch's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Arrays = dict[str, np.ndarray]


def fold(
    weight: np.ndarray,
    *,
    mean: np.ndarray,
    variance: np.ndarray,
    epsilon: float,
    scale: np.ndarray | None = None,
    shift: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weight [out, …] and bias [out] of a convolution that does what it and its batch norm did."""
    mean, variance = mean.astype(np.float64).reshape(-1), variance.astype(np.float64).reshape(-1)
    factor = (1.0 if scale is None else scale.astype(np.float64).reshape(-1)) / np.sqrt(variance + epsilon)  # [out]
    offset = (0.0 if bias is None else bias.astype(np.float64)) - mean
    folded = weight.astype(np.float64) * factor.reshape(-1, *[1] * (weight.ndim - 1))
    moved = offset * factor + (0.0 if shift is None else shift.astype(np.float64).reshape(-1))
    return folded.astype(np.float32), moved.astype(np.float32)


def fold_torch(arrays: Mapping[str, np.ndarray], convolution: str, norm: str, epsilon: float) -> Arrays:
    """`weight` and `bias` of a convolution and the batch norm after it, which have torch's names."""
    weight, bias = fold(
        arrays[f"{convolution}.weight"],
        bias=arrays.get(f"{convolution}.bias"),
        mean=arrays[f"{norm}.running_mean"],
        variance=arrays[f"{norm}.running_var"],
        scale=arrays.get(f"{norm}.weight"),
        shift=arrays.get(f"{norm}.bias"),
        epsilon=epsilon,
    )
    return {"weight": weight, "bias": bias}


def from_channels_last(kernel: np.ndarray) -> np.ndarray:
    """TensorFlow's, Keras' and Flax' kernels […, in, out] as torch's [out, in, …]."""
    return np.ascontiguousarray(np.moveaxis(kernel, (-1, -2), (0, 1)))
