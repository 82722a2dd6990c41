"""All frames of a file, or those at given times, with its sound: the simple way to decode, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hoca.errors import UnreadableVideo
from hoca.files import printable
from hoca.media.clip import Clip
from hoca.media.decode import decode
from hoca.media.request import AtTimes, DecodeLimits, Pictures, Request


def read(
    path: Path | str,
    *,
    times: Sequence[float] | None = None,
    rate: int | None = 16000,
    transform: Callable[[np.ndarray], np.ndarray] | None = None,
    limits: DecodeLimits | None = None,
) -> Clip:
    """All frames of a file, or for each of `times` (seconds) the frame on screen then, and its sound at `rate`.

    `rate=None` leaves the sound out. `transform` is applied to each frame [height, width, 3] as it is decoded, so that
    a long file needs no more memory than its transformed frames.
    """
    pick = range if times is None else AtTimes(tuple(times))
    found = decode(Request(Path(path), {"all": Pictures(pick, transform=transform)}, rate), limits)
    if "picture" in found.absent:
        raise UnreadableVideo(f"{printable(path)} has no picture ({found.absent['picture']}): give a video file")
    when = found.times["all"] if times is None else np.array(times, dtype=np.float64)
    return Clip(found.pictures["all"], when, found.duration, found.waveform, found.rate)
