"""What a video is once it is decoded or rendered: pictures with their times, and perhaps sound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Clip:
    frames: np.ndarray  # uint8 RGB [F, height, width, 3]
    times: np.ndarray  # float64 [F], seconds from the start
    duration: float  # seconds
    waveform: np.ndarray | None = None  # float32 mono [samples] in [-1, 1]; None: there is no sound
    rate: int = 16000  # samples per second of the waveform
