"""The learning rate of every step."""

from __future__ import annotations

import math

from hoca.training.recipe import TrainSection


def learning_rate(settings: TrainSection, step: int, steps: int) -> float:
    """The rate of step number `step` (from 0) out of `steps`: a linear warm-up times a constant or half a cosine."""
    rate = settings.learning_rate
    if settings.warmup:
        rate *= min(1.0, (step + 1) / settings.warmup)
    if settings.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
    return rate
