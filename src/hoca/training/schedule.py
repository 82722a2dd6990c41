"""The learning rate of every step."""

from __future__ import annotations

import math

from hoca.training.recipe import Recipe


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """The rate of step number `step` (from 0) out of `steps`: a linear warm-up times a constant or half a cosine."""
    rate = recipe.learning_rate
    if recipe.warmup:
        rate *= min(1.0, (step + 1) / recipe.warmup)
    if recipe.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
    return rate
