"""Confidence intervals and paired tests, for means over seeds and over clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev

import numpy as np

RESAMPLES = 10_000


def t_interval(values: Sequence[float], level: float = 0.95) -> float:
    """Half the width of the confidence interval of the mean, by Student's t; nan of a single value."""
    if len(values) < 2:
        return math.nan
    return t_quantile(0.5 + level / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def paired_t(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p of no difference, from pairs such as the same seeds; nan of fewer than two pairs."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    if len(differences) < 2:
        return math.nan
    spread, mean = stdev(differences), fmean(differences)
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * (1 - t_cumulative(abs(mean) / spread * math.sqrt(len(differences)), len(differences) - 1))


def bootstrap(
    values: np.ndarray, weights: np.ndarray | None = None, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of the mean of values [N], drawing them anew with replacement.

    weights [resamples, N]: how often each value is drawn in each resample, where they are not drawn independently.
    """
    if weights is None:
        random = np.random.default_rng(seed)
        means = np.array([values[random.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)])
    else:
        totals = weights.sum(1)
        means = (weights @ values)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def draws(units: int, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """How often each of so many units is drawn, with replacement, in each resample [resamples, units]."""
    random = np.random.default_rng(seed)
    return random.multinomial(units, np.full(units, 1 / units), size=resamples)


def t_cumulative(t: float, degrees: int) -> float:
    """P(T ≤ t), by Simpson's rule over the angle atan(t/√ν), in which the density is a power of the cosine."""
    steps = 2000
    end = math.atan(t / math.sqrt(degrees))
    grid = [i * end / steps for i in range(steps + 1)]
    heights = [math.cos(angle) ** (degrees - 1) for angle in grid]
    inner = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    return 0.5 + scale * inner * end / steps / 3


@cache
def t_quantile(probability: float, degrees: int) -> float:
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cumulative(middle, degrees) < probability else (low, middle)
    return (low + high) / 2
