"""From a clip, decoded or rendered, to the features that a specification asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hoca import media
from hoca.errors import UserError
from hoca.features import light
from hoca.features.picture import shrink

MAX_STEPS = 80


@dataclass(frozen=True)
class Extracted:
    features: dict[str, np.ndarray]  # modality -> float32 [T, width]
    absent: dict[str, str]  # modality -> why
    duration: float  # seconds


class Absent(Exception):
    """The clip lacks what a modality is made of; the message says what."""


def extract(path: Path | str, specification: Mapping[str, Any]) -> Extracted:
    """The features of a video file."""
    check(specification)
    return of_clip(media.read(path, rate=light.RATE, transform=shrink), specification)


def of_clip(clip: media.Clip, specification: Mapping[str, Any]) -> Extracted:
    """The same features of a clip in memory."""
    check(specification)
    features: dict[str, np.ndarray] = {}
    absent: dict[str, str] = {}
    for name, settings in specification.items():
        try:
            features[name] = BACKBONES[settings["backbone"]](clip, settings["steps"])
        except Absent as reason:
            absent[name] = str(reason)
    return Extracted(features, absent, clip.duration)


def check(specification: Mapping[str, Any]) -> None:
    for name, settings in specification.items():
        backbone = settings.get("backbone") if isinstance(settings, Mapping) else None
        if not isinstance(backbone, str) or backbone not in BACKBONES:
            raise UserError(
                f"feature specification: {name} wants backbone {backbone!r}, known are {', '.join(BACKBONES)}"
            )
        steps = settings.get("steps")
        if not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS:
            raise UserError(f"feature specification: {name} wants {steps!r} steps, give 1 to {MAX_STEPS}")


def _image(clip: media.Clip, steps: int) -> np.ndarray:
    return light.image(_small(clip.frames), steps)


def _motion(clip: media.Clip, steps: int) -> np.ndarray:
    if len(clip.frames) < 2:
        raise Absent("a single frame has no motion")
    return light.motion(_small(clip.frames), steps)


def _audio(clip: media.Clip, steps: int) -> np.ndarray:
    if clip.waveform is None:
        raise Absent("no sound")
    features = light.audio(clip.waveform, steps)
    if features is None:
        raise Absent("silent throughout")
    return features


def _small(frames: np.ndarray) -> np.ndarray:
    return np.stack([shrink(frame) for frame in frames])


BACKBONES: dict[str, Callable[[media.Clip, int], np.ndarray]] = {
    "light-image": _image,
    "light-motion": _motion,
    "light-audio": _audio,
}
