"""SoundNet-8 (Aytar, Vondrick and Torralba, 2016): a one-dimensional convolutional network on raw sound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn

from hoca.networks.folding import Arrays, fold, from_channels_last

EPSILON = 1e-5
RATE = 22050
LOUDNESS = 256.0  # it was trained on samples in [-256, 256]
WIDTH = 1024
SHORTEST = 30_001  # samples: fewer leave conv7 hardly anything but padding
LAYERS = (  # channels, kernel, padding, pool after it
    (16, 64, 32, 8),
    (32, 32, 16, 8),
    (64, 16, 8, 1),
    (128, 8, 4, 1),
    (256, 4, 2, 4),
    (512, 4, 2, 1),
    (1024, 4, 2, 1),
)


class SoundNet(nn.Module):
    """Sound [B, samples] in [-1, 1] at 22.05 kHz → [B, T', 1024]: conv7, one step for about 1.5 seconds."""

    def __init__(self) -> None:
        super().__init__()
        inputs = 1
        for number, (channels, kernel, padding, _) in enumerate(LAYERS, start=1):
            self.add_module(f"conv{number}", nn.Conv1d(inputs, channels, kernel, stride=2, padding=padding))
            inputs = channels

    def forward(self, waveform: Tensor) -> Tensor:
        x = (waveform * LOUDNESS)[:, None].to(next(self.parameters()).dtype)  # [B, 1, samples]
        for number, (_, _, _, pool) in enumerate(LAYERS, start=1):
            x = self.get_submodule(f"conv{number}")(x).relu_()
            if pool > 1:
                x = nn.functional.max_pool1d(x, pool)
        return x.float().transpose(1, 2)


def convert(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The state of `SoundNet` from `sound8.npy`: conv1/weights [kernel, 1, in, out], biases, gamma, beta, mean, var."""
    state: Arrays = {}
    for number in range(1, len(LAYERS) + 1):
        layer = {name: arrays[f"conv{number}/{name}"] for name in ("weights", "biases", "gamma", "beta", "mean", "var")}
        weight, bias = fold(
            from_channels_last(layer["weights"][:, 0]),
            bias=layer["biases"],
            scale=layer["gamma"],
            shift=layer["beta"],
            mean=layer["mean"],
            variance=layer["var"],
            epsilon=EPSILON,
        )
        state |= {f"conv{number}.weight": weight, f"conv{number}.bias": bias}
    return state
