"""VGGish (Hershey et al., 2017), the paper's audio backbone: VGG on log-mel pictures, then AudioSet's PCA."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hoca.networks.folding import Arrays, from_channels_last
from hoca.networks.logmel import BANDS, SHORTEST, STEP, log_mel

WIDTH = 128
CHANNELS = (64, 128, 256, 256, 512, 512)
POOLED = (0, 1, 3, 5)  # convolutions that a max-pool of 2 × 2 follows
LIMIT = 2.0  # PCA values beyond it are cut off
LEVELS = 255  # AudioSet keeps eight bits of each value
TORCH = dict(zip((0, 3, 6, 8, 11, 13), range(6), strict=True))  # layer in the common port → convolution
TENSORFLOW = ("conv1", "conv2", "conv3/conv3_1", "conv3/conv3_2", "conv4/conv4_1", "conv4/conv4_2")
TENSORFLOW_DENSE = ("fc1/fc1_1", "fc1/fc1_2", "fc2")


class VGGish(nn.Module):
    """Sound [B, samples] at 16 kHz → [B, T', 128], one step for 0.96 s: after PCA, in 255 levels from -2 to 2."""

    def __init__(self, channels: tuple[int, ...] = CHANNELS, hidden: int = 4096) -> None:
        super().__init__()
        inputs = (1, *channels[:-1])
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in zip(inputs, channels, strict=True))
        flat = STEP // 16 * (BANDS // 16) * channels[-1]
        self.dense = nn.ModuleList([nn.Linear(flat, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, WIDTH)])
        self.pca = nn.Linear(WIDTH, WIDTH)

    def forward(self, waveform: Tensor) -> Tensor:
        short = max(0, SHORTEST - waveform.shape[1])
        pictures = log_mel(F.pad(waveform, (0, short)))  # [B, T', 96, 64]
        made = self.embed(pictures.flatten(0, 1))  # [B·T', 128]
        return self.processed(made).unflatten(0, pictures.shape[:2])

    def embed(self, pictures: Tensor) -> Tensor:
        """[S, 96, 64] → [S, 128]: the network itself, before PCA."""
        x = pictures[:, None].to(self.pca.weight.dtype)  # [S, 1, 96, 64]
        for number, convolution in enumerate(self.convolutions):
            x = convolution(x).relu_()
            if number in POOLED:
                x = F.max_pool2d(x, 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # [S, 6·4·512], time and band before channel, as it was trained
        for dense in self.dense:
            x = dense(x).relu_()
        return x

    def processed(self, embedding: Tensor) -> Tensor:
        """AudioSet's post-processing: PCA with whitening, cut off, rounded to eight bits, brought back to [-2, 2]."""
        levels = (self.pca(embedding).float().clamp(-LIMIT, LIMIT) + LIMIT) * (LEVELS / (2 * LIMIT))
        return torch.round(levels) * (2 * LIMIT / LEVELS) - LIMIT


def convert(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The state of `VGGish` from the common PyTorch port or TensorFlow's variables, and the PCA of either."""
    state = _from_torch(arrays) if "features.0.weight" in arrays else _from_tensorflow(arrays)
    vectors = np.asarray(arrays["pca_eigen_vectors"], dtype=np.float64)  # [128, 128], a row for each component
    means = np.asarray(arrays["pca_means"], dtype=np.float64).reshape(-1)
    # V (x - m) = V x - V m
    return state | {"pca.weight": vectors.astype(np.float32), "pca.bias": (-vectors @ means).astype(np.float32)}


def _from_torch(arrays: Mapping[str, np.ndarray]) -> Arrays:
    state: Arrays = {}
    for part in ("weight", "bias"):
        state |= {f"convolutions.{ours}.{part}": arrays[f"features.{port}.{part}"] for port, ours in TORCH.items()}
        state |= {f"dense.{number}.{part}": arrays[f"embeddings.{2 * number}.{part}"] for number in range(3)}
    return state


def _from_tensorflow(arrays: Mapping[str, np.ndarray]) -> Arrays:
    plain = {name.removeprefix("vggish/").removesuffix(":0"): value for name, value in arrays.items()}
    state: Arrays = {}
    for number, name in enumerate(TENSORFLOW):
        state[f"convolutions.{number}.weight"] = from_channels_last(plain[f"{name}/weights"])
        state[f"convolutions.{number}.bias"] = plain[f"{name}/biases"]
    for number, name in enumerate(TENSORFLOW_DENSE):
        state[f"dense.{number}.weight"] = np.ascontiguousarray(plain[f"{name}/weights"].T)
        state[f"dense.{number}.bias"] = plain[f"{name}/biases"]
    return state
