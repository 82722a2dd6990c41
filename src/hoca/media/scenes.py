"""Where the scenes of a film begin and end: hard cuts, found by comparing small pictures of all its frames.

A frame begins a scene if it differs from the one before it by `THRESHOLD` or more, on average over pixels and colours
of 0 to 255, and `CONTRAST` times as much as all but one of the frames around it: what moves fast, or shakes, changes
much from frame to frame too, but goes on doing so. The one left out may be another cut. Fades are no cuts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from hoca.media.request import DecodedVideo, Pictures, Request

SIZE = (36, 64)  # of the pictures that are compared
STRETCH = 30.0  # seconds that are decoded at a time, which bounds the memory
THRESHOLD = 15.0
CONTRAST = 2.0
AROUND = 8  # frames before a cut and after it
SHORTEST = 2.0  # seconds; a shorter scene is joined to the next one, the last one to the one before it
LONGEST = 20.0  # seconds; a longer scene is divided into equal parts

Decode = Callable[[Request], DecodedVideo]
Span = tuple[float, float]  # seconds (start, end)


def scenes(path: Path, decode: Decode, start: float, end: float) -> Iterator[Span]:
    """The scenes between two times, each as soon as it is known."""
    return divided(joined(cuts(changes(path, decode, start, end)), start, end))


def stretches(start: float, end: float, seconds: float) -> Iterator[Span]:
    """Parts of so many seconds; what is left at the end, if less than half of that, lengthens the last one."""
    count = max(1, int((end - start) / seconds + 0.5))
    for number in range(count):
        yield start + number * seconds, end if number == count - 1 else start + (number + 1) * seconds


def changes(path: Path, decode: Decode, start: float, end: float) -> Iterator[tuple[float, float]]:
    """When each frame but the first appears, and how much it differs from the one before it."""
    last: np.ndarray | None = None
    for part in stretches(start, end, STRETCH):
        found = decode(Request(path, {"small": Pictures(range, SIZE, "area")}, part=part))
        if "small" not in found.pictures:  # the pictures have ended, the sound goes on
            return
        for time, picture in zip(found.times["small"], found.pictures["small"].astype(np.int16), strict=True):
            if last is not None:
                yield part[0] + float(time), float(np.abs(picture - last).mean())
            last = picture


def cuts(changed: Iterable[tuple[float, float]]) -> Iterator[float]:
    """The times at which a scene begins, given those of frames and how much each has changed."""
    nothing = [(0.0, 0.0)] * AROUND
    window = deque(nothing, maxlen=2 * AROUND + 1)

    def all_of_them() -> Iterator[tuple[float, float]]:
        yield from changed
        yield from nothing

    for each in all_of_them():
        window.append(each)
        if len(window) < 2 * AROUND + 1:
            continue
        time, change = window[AROUND]
        around = sorted(other for place, (_, other) in enumerate(window) if place != AROUND)
        if change >= THRESHOLD and change >= CONTRAST * around[-2]:
            yield time


def joined(begins: Iterable[float], start: float, end: float) -> Iterator[Span]:
    """Scenes that begin at these times, none shorter than `SHORTEST` unless all of them together are."""
    known: Span | None = None
    for time in begins:
        if time - start < SHORTEST:
            continue
        if known is not None:
            yield known
        known, start = (start, time), time
    if known is None:
        yield start, end
    elif end - start < SHORTEST:
        yield known[0], end
    else:
        yield known
        yield start, end


def divided(spans: Iterable[Span]) -> Iterator[Span]:
    """The same, those longer than `LONGEST` in equal parts."""
    for start, end in spans:
        count = max(1, int(np.ceil((end - start) / LONGEST)))
        for number in range(count):
            yield start + (end - start) * number / count, start + (end - start) * (number + 1) / count
