"""Which seconds of a clip each time step of a modality covers; that is decided by how its features were sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from hoca.media.clock import Clock

Spans = tuple[tuple[float, float], ...]  # seconds (start, end) of each step

MOTION_FRAMES = 800  # the most that the default sampling gives to I3D
MOTION_STRIDE = 8  # frames per time step of Mixed_5c
SOUND_RATE = 22050
SOUND_LAYERS = (  # (kernel, stride, padding) of SoundNet-8 up to conv7, pools included
    *((64, 2, 32), (8, 8, 0), (32, 2, 16), (8, 8, 0), (16, 2, 8), (8, 2, 4), (4, 2, 2), (4, 4, 0)),
    *((4, 2, 2), (4, 2, 2)),
)


def spans(settings: Mapping[str, Any], steps: int, clock: Clock) -> Spans:
    """The seconds that each of `steps` steps covers; `settings` is the modality's part of the specification."""
    backbone, sampling = str(settings.get("backbone")), str(settings.get("sampling"))
    heard = backbone in SOUND or not clock.frames
    rule = RULES.get((backbone, sampling)) or (evenly_heard if heard else evenly)
    return tuple(_within(start, end, clock.duration) for start, end in rule(steps, clock))


def evenly(steps: int, clock: Clock) -> Spans:
    """Step i stands for the i-th of `steps` equal parts of the frames, as ⌊(i+½)·n/steps⌋ lies in its middle."""
    edges = [clock.at(i * clock.frames / steps) for i in range(steps + 1)]
    return tuple(pairwise(edges))


def evenly_heard(steps: int, clock: Clock) -> Spans:
    """Sound knows no frames: equal parts of the seconds."""
    return tuple((i * clock.duration / steps, (i + 1) * clock.duration / steps) for i in range(steps))


def motion_windows(steps: int, clock: Clock) -> Spans:
    """I3D sees the first 800 frames at once; its ⌈n/8⌉ steps are averaged adaptively, so neighbours may overlap."""
    seen = min(clock.frames, MOTION_FRAMES)
    inner = -(-max(seen, 16) // MOTION_STRIDE)
    firsts = [i * inner // steps for i in range(steps)]
    lasts = [-(-(i + 1) * inner // steps) for i in range(steps)]
    frame: Callable[[int], float] = lambda number: clock.at(min(MOTION_STRIDE * number, seen))  # noqa: E731
    return tuple((frame(first), frame(last)) for first, last in zip(firsts, lasts, strict=True))


def sound_stretches(steps: int, clock: Clock) -> Spans:
    """Each step of conv7 is centred on one sample; the stretch half-way to its neighbours is given to it."""
    centre, stride = 0.0, 1
    for kernel, step, padding in SOUND_LAYERS:
        centre += stride * ((kernel - 1) / 2 - padding)
        stride *= step
    middles = [centre + stride * number for number in range(steps)]
    return tuple(((m - stride / 2) / SOUND_RATE, (m + stride / 2) / SOUND_RATE) for m in middles)


RULES: dict[tuple[str, str], Callable[[int, Clock], Spans]] = {
    ("i3d-kinetics-400", "default"): motion_windows,
    ("soundnet-8", "default"): sound_stretches,
}
SOUND = ("light-audio", "log-mel", "soundnet-8", "vggish")


def _within(start: float, end: float, duration: float) -> tuple[float, float]:
    return round(min(max(start, 0.0), duration), 3), round(min(max(end, 0.0), duration), 3)
