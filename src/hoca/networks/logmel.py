"""VGGish's view of sound, log-mel pictures of 0.96 s, and features of it that need no weights."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

RATE = 16000
WINDOW, HOP, FFT = 400, 160, 512  # 25 ms every 10 ms
BANDS = 64
LOWEST, HIGHEST = 125.0, 7500.0
FLOOR = 0.01
STEP = 96  # windows, 0.96 s
SHORTEST = WINDOW + HOP * (STEP - 1)  # samples in one step


def log_mel(waveform: Tensor) -> Tensor:
    """Sound [B, samples] at 16 kHz → [B, ⌊seconds / 0.96⌋, 96, 64]: log of mel-weighted magnitudes, in float32."""
    windows = waveform.float().unfold(1, WINDOW, HOP)  # [B, M, 400]
    hann = torch.hann_window(WINDOW, periodic=True, device=waveform.device)
    magnitude = torch.fft.rfft(windows * hann, n=FFT).abs()  # [B, M, 257]
    mel = torch.from_numpy(_mel_matrix()).to(waveform.device)
    bands = torch.log(magnitude @ mel + FLOOR)  # [B, M, 64]
    steps = bands.shape[1] // STEP
    return bands[:, : steps * STEP].reshape(len(bands), steps, STEP, BANDS)


@lru_cache(maxsize=1)
def _mel_matrix() -> np.ndarray:
    """[257, 64]: triangles that overlap by half, straight on the mel scale; the sound's mean is left out."""
    mel = 1127 * np.log1p(np.fft.rfftfreq(FFT, 1 / RATE) / 700)[:, None]  # [257, 1]
    edges = np.linspace(1127 * np.log1p(LOWEST / 700), 1127 * np.log1p(HIGHEST / 700), BANDS + 2)
    rising = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    weights = np.maximum(np.minimum(rising, falling), 0)
    weights[0] = 0
    return weights.astype(np.float32)


class LogMel(nn.Module):
    """Sound [B, samples] at 16 kHz → [B, T', 128]: mean and maximum of each band in 0.96 s, about unit scale."""

    def forward(self, waveform: Tensor) -> Tensor:
        short = max(0, SHORTEST - waveform.shape[1])
        bands = (log_mel(F.pad(waveform, (0, short))) + 2) / 2  # [B, T', 96, 64]
        return torch.cat([bands.mean(2), bands.amax(2)], dim=-1)
