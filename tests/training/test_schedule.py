from __future__ import annotations

import math

import pytest

from hoca.training.recipe import TrainSection
from hoca.training.schedule import learning_rate


def rates(settings: TrainSection, steps: int) -> list[float]:
    return [learning_rate(settings, step, steps) for step in range(steps)]


def test_constant() -> None:
    assert rates(TrainSection(learning_rate=0.5), 3) == [0.5, 0.5, 0.5]


def test_warm_up_rises_in_equal_steps_and_never_stands_at_zero() -> None:
    assert rates(TrainSection(learning_rate=0.8, warmup=4), 6) == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])


def test_cosine_falls_from_the_whole_rate_to_nearly_zero() -> None:
    assert rates(TrainSection(learning_rate=2.0, schedule="cosine"), 4) == pytest.approx(
        [2.0, 1 + math.cos(math.pi / 4), 1.0, 1 - math.cos(math.pi / 4)]
    )


def test_warm_up_and_cosine_multiply() -> None:
    settings = TrainSection(learning_rate=2.0, schedule="cosine", warmup=2)
    assert rates(settings, 4) == pytest.approx([1.0, 1 + math.cos(math.pi / 4), 1.0, 1 - math.cos(math.pi / 4)])
