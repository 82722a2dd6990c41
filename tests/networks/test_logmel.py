"""VGGish's front end against values computed independently, in numpy and double precision, one window at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hoca.networks.logmel import LogMel, log_mel


def mel(hertz: float) -> float:
    return 1127.0 * np.log(1.0 + hertz / 700.0)


def independent(sound: np.ndarray) -> np.ndarray:
    """[samples] → [steps, 96, 64], as VGGish's parameters define it."""
    edges = np.linspace(mel(125), mel(7500), 66)
    window = 0.5 - 0.5 * np.cos(2 * np.pi / 400 * np.arange(400))
    rows = []
    for first in range(0, len(sound) - 400 + 1, 160):
        spectrum = np.zeros(257)
        magnitude = np.abs(np.fft.fft(np.pad(sound[first : first + 400] * window, (0, 112))))
        spectrum[:] = magnitude[:257]
        row = np.zeros(64)
        for band in range(64):
            low, middle, high = edges[band : band + 3]
            for k in range(1, 257):
                at = mel(k * 8000 / 256)
                row[band] += spectrum[k] * max(0.0, min((at - low) / (middle - low), (high - at) / (high - middle)))
        rows.append(np.log(row + 0.01))
    steps = len(rows) // 96
    return np.array(rows[: 96 * steps]).reshape(steps, 96, 64)


def test_log_mel_equals_an_independent_computation() -> None:
    rng = np.random.default_rng(0)
    time = np.arange(32_000) / 16000
    sound = 0.5 * np.sin(2 * np.pi * 440 * time) + 0.1 * rng.standard_normal(32_000)
    expected = independent(sound)
    found = log_mel(torch.from_numpy(sound.astype(np.float32))[None])[0].numpy()
    assert found.shape == expected.shape == (2, 96, 64)
    np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize(("samples", "steps"), [(1, 1), (15_600, 1), (30_959, 1), (30_960, 2), (160_000, 10)])
def test_one_step_for_0_96_seconds(samples: int, steps: int) -> None:
    made = LogMel()(torch.randn(1, samples))
    assert made.shape == (1, steps, 128)
    assert made.isfinite().all()
