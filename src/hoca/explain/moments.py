"""Which seconds of a clip each time step of a modality covers: its backbone knows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from hoca.errors import UserError
from hoca.features.backbones import backbone
from hoca.media.clock import Clock, Spans, equal_parts


def spans(settings: Mapping[str, Any], steps: int, clock: Clock) -> Spans:
    """The seconds that each of `steps` steps covers; `settings` is the modality's part of the specification.

    Steps of a backbone that is not known here (features of someone else's making) are spread evenly. A difference of
    neighbouring steps covers both.
    """
    if settings.get("difference"):
        both = spans({key: value for key, value in settings.items() if key != "difference"}, steps + 1, clock)
        return tuple((first[0], second[1]) for first, second in pairwise(both))
    try:
        known = backbone(settings.get("backbone"), "a modality")
    except UserError:
        found = equal_parts(clock.duration, steps)
    else:
        found = known.spans(settings, steps, clock)
    return tuple((_within(start, clock.duration), _within(end, clock.duration)) for start, end in found)


def coverage(steps: Spans, moments: Spans) -> tuple[float, ...]:
    """The part of each step's time that lies within the moments; of a step that takes no time, none."""
    found = []
    for start, end in steps:
        within = sum(max(0.0, min(end, until) - max(start, since)) for since, until in moments)
        found.append(min(1.0, within / (end - start)) if end > start else 0.0)  # moments may overlap each other
    return tuple(found)


def _within(time: float, duration: float) -> float:
    return round(min(max(time, 0.0), duration), 3)
