"""When a clip's pictures and its sound are there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Spans = tuple[tuple[float, float], ...]  # seconds (start, end) of each step


@dataclass(frozen=True)
class Clock:
    """The times of a clip's frames and sound; between frames whose times are known, time runs evenly."""

    frames: int  # how many the clip has
    seen: float  # seconds, when the last frame ends
    heard: float  # seconds, when the sound ends; 0: there is none
    numbers: tuple[int, ...] = ()  # of some frames, ascending
    times: tuple[float, ...] = ()  # theirs, in seconds

    @property
    def duration(self) -> float:
        return max(self.seen, self.heard)

    def at(self, frame: float) -> float:
        """When the frame of this number begins; `frames` itself is the end."""
        known = {0: 0.0, **dict(zip(self.numbers, self.times, strict=True)), self.frames: self.seen}
        return float(np.interp(frame, list(known), list(known.values())))

    def parts(self, count: int) -> Spans:
        """Equal parts of the frames; frame ⌊(i+½)·n/count⌋ lies in the middle of part i."""
        return tuple(pairwise(self.at(i * self.frames / count) for i in range(count + 1)))


def equal_parts(seconds: float, count: int) -> Spans:
    return tuple((i * seconds / count, (i + 1) * seconds / count) for i in range(count))
