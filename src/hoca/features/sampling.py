"""How steps are laid over a clip: the paper's chunks, and averages. Torch-free: decoding processes import it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hoca.media.clock import Clock, Spans
from hoca.media.request import Spread

MAX_STEPS = 80
CHUNK = 64  # frames of one of the paper's motion features
STRIDE = 8  # frames from one output of I3D to the next


@dataclass(frozen=True)
class Chunks:
    """All frames that the paper's chunks hold, once and in order; a clip shorter than a chunk has its last repeated."""

    steps: int

    def starts(self, n: int) -> list[int]:
        """First frames of the chunks: 64 frames centred on evenly spread ones, each chunk kept inside the clip."""
        return [min(max(middle - CHUNK // 2, 0), max(n - CHUNK, 0)) for middle in Spread(self.steps)(n)]

    def runs(self, n: int) -> list[tuple[int, int]]:
        """First and last+1 frames of the stretches in which the chunks overlap or touch."""
        runs: list[tuple[int, int]] = []
        for start in self.starts(n):
            if runs and start <= runs[-1][1]:
                runs[-1] = (runs[-1][0], start + CHUNK)
            else:
                runs.append((start, start + CHUNK))
        return runs

    def spans(self, clock: Clock) -> Spans:
        starts = self.starts(clock.frames)
        return tuple((clock.at(start), clock.at(min(start + CHUNK, clock.frames))) for start in starts)

    def __call__(self, n: int) -> Sequence[int]:
        return [min(number, n - 1) for first, last in self.runs(n) for number in range(first, last)]


def windows(count: int, steps: int) -> list[tuple[int, int]]:
    """First and last+1 of the `count` outputs that make each step: ⌊i·count/steps⌋ … ⌈(i+1)·count/steps⌉."""
    return [(number * count // steps, -(-(number + 1) * count // steps)) for number in range(steps)]


def averaged(values: np.ndarray, steps: int) -> np.ndarray:
    """[T, width] → [steps, width]: adaptive average pooling."""
    return np.stack([values[first:last].mean(0) for first, last in windows(len(values), steps)])


def shortened(values: np.ndarray, steps: int) -> np.ndarray:
    """[T, width] with more than `steps` steps averaged to so many; fewer stay as they are."""
    return averaged(values, steps) if len(values) > steps else values


def window_means(values: np.ndarray, starts: Sequence[float], length: float) -> np.ndarray:
    """[T, width] → [S, width]: means over [start, start + length), in steps; what is half inside counts half."""
    edges = np.arange(len(values) + 1, dtype=np.float64)
    means = []
    for start in starts:
        inside = np.clip(edges, start, start + length)
        weights = np.diff(inside)  # [T]
        means.append(weights @ values / weights.sum())
    return np.stack(means).astype(np.float32)
