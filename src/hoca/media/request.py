"""What to decode from a file, what comes back, and how much a file may cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

GIB = 1024**3
TOLERANCE = 1e-4  # seconds; container clocks are coarse: 1/24 s may be stored as 0.0417


@dataclass(frozen=True)
class Spread:
    """`count` frames spread evenly over the clip: the middle ones of `count` equal parts."""

    count: int

    def __call__(self, n: int) -> list[int]:
        return [(2 * i + 1) * n // (2 * self.count) for i in range(self.count)]  # ⌊(i+½)·n/count⌋ without rounding


@dataclass(frozen=True)
class First:
    """The first `count` frames; the last one repeated if there are fewer than `least`."""

    count: int
    least: int = 1

    def __call__(self, n: int) -> list[int]:
        return [min(i, n - 1) for i in range(max(min(n, self.count), self.least))]


@dataclass(frozen=True)
class AtTimes:
    """For each time (seconds from the first frame) the frame on screen then; the first one for earlier times."""

    times: tuple[float, ...]

    def numbers(self, shown: Sequence[float]) -> list[int]:
        """Frame numbers, given the times at which the frames appear, in order."""
        rising = np.maximum.accumulate(shown)  # a damaged file may go back in time
        return np.maximum(np.searchsorted(rising, np.add(self.times, TOLERANCE), side="right") - 1, 0).tolist()


@dataclass(frozen=True)
class Pictures:
    """Which frames, and how large. What a worker process is to use must be picklable."""

    pick: Callable[[int], Sequence[int]] | AtTimes  # the number n of frames → numbers of those wanted, in any order
    size: tuple[int, int] | None = None  # (height, width) to scale to; None: as they are
    filter: Literal["bicubic", "area", "common"] = "bicubic"  # common: usual colours, for frames as they are
    transform: Callable[[np.ndarray], np.ndarray] | None = None  # applied to each picked RGB frame


@dataclass(frozen=True)
class Request:
    """Without pictures and sound it asks how long the file plays."""

    path: Path
    pictures: Mapping[str, Pictures] = field(default_factory=dict)
    rate: int | None = None  # samples per second of the sound; None: no sound wanted
    sound_seconds: float | None = None  # how much of the sound, from the first frame on; None: all
    part: tuple[float, float] | None = None  # (start, end), seconds from the first frame: decode this part alone, as if
    # it were a file of its own, which begins with the frame on screen at its start


@dataclass(frozen=True)
class DecodedVideo:
    pictures: dict[str, np.ndarray]  # name → uint8 RGB [F, height, width, 3], or what `transform` gave, stacked
    times: dict[str, np.ndarray]  # name → float64 [F], seconds from the first frame of the file or part
    frames: int  # in the whole file or part, 0 if no picture was wanted
    duration: float  # seconds: when the last picture, or the sound that was read, ends
    waveform: np.ndarray | None  # float32 mono [samples]; None: not wanted or absent
    rate: int
    absent: dict[str, str] = field(default_factory=dict)  # "picture" or "sound" → why it is not there
    damage: str = ""  # the decoder's first complaint, if parts of the file could not be decoded


@dataclass(frozen=True)
class Failure:
    reason: str  # one line: what, which file, what to do


@dataclass(frozen=True)
class DecodeLimits:
    """What one file may cost, or one part of it where parts are asked for.

    Only a worker process can be held to `memory`, and stopped in the middle of a frame.
    """

    bytes: int = 16 * GIB  # size of the file
    seconds: float = 4 * 3600  # how long it plays
    pixels: int = 8192 * 4608  # of one frame
    frames: int = 1_000_000
    decode_seconds: float = 300  # wall time
    memory: int = 4 * GIB  # beyond what an idle worker takes
