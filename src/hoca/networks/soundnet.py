"""SoundNet-8 (Aytar, Vondrick and Torralba, 2016): a one-dimensional convolutional network on raw sound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from hoca.networks.folding import Arrays, fold, from_channels_last

EPSILON = 1e-5
RATE = 22050
LOUDNESS = 256.0  # it was trained on samples in [-256, 256]
WIDTH = 1024
SHORTEST = 30_001  # samples: fewer leave conv7 hardly anything but padding
ROUNDED = 1 << 17  # samples, six seconds, by which the lengths of sounds that are heard together differ
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

    def together(self, sounds: Sequence[Tensor]) -> list[Tensor]:
        """[samples] each → [T', 1024] each, as alone, in batches of few shapes: cuDNN plans anew for each it meets.

        What follows a sound that was made longer is set to zero in each layer, as padding is.
        """
        alike = defaultdict(list)
        for number, sound in enumerate(sounds):
            alike[-(-len(sound) // ROUNDED) * ROUNDED].append(number)
        made: dict[int, Tensor] = {}
        for longest, numbers in alike.items():
            rows = 1 << (len(numbers) - 1).bit_length()
            x = torch.zeros((rows, longest), device=sounds[0].device)
            for row, number in enumerate(numbers):
                x[row, : len(sounds[number])] = sounds[number]
            outputs = self._together(x, [len(sounds[number]) for number in numbers])
            made |= dict(zip(numbers, outputs, strict=True))
        return [made[number] for number in range(len(sounds))]

    def _together(self, waveforms: Tensor, lengths: list[int]) -> list[Tensor]:
        x = (waveforms * LOUDNESS)[:, None].to(next(self.parameters()).dtype)  # [B, 1, samples]
        for number, (_, kernel, padding, pool) in enumerate(LAYERS, start=1):
            x = self.get_submodule(f"conv{number}")(x).relu_()
            if pool > 1:
                x = nn.functional.max_pool1d(x, pool)
            lengths = [((length + 2 * padding - kernel) // 2 + 1) // pool for length in lengths]
            for row, length in enumerate(lengths):
                x[row, :, length:] = 0
        return [steps[:length] for steps, length in zip(x.float().transpose(1, 2), lengths, strict=False)]


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
