"""When the frames of a clip are on screen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Clock:
    """The times of a clip's frames; between the frames that were looked at, time runs evenly."""

    frames: int  # how many the clip has
    duration: float  # seconds
    numbers: tuple[int, ...]  # of some frames, ascending
    times: tuple[float, ...]  # theirs, in seconds

    def at(self, frame: float) -> float:
        """When the frame of this number begins; `frames` itself is the end."""
        known = {0: 0.0, **dict(zip(self.numbers, self.times, strict=True)), self.frames: self.duration}
        return float(np.interp(frame, list(known), list(known.values())))
