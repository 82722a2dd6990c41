"""Intervals and tests against published tables and against what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from .scripts import script


@pytest.fixture(scope="module")
def significance() -> dict:
    return script("significance")


@pytest.mark.parametrize(("degrees", "value"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_quantiles_are_those_of_the_tables(significance: dict, degrees: int, value: float) -> None:
    assert significance["t_quantile"](0.975, degrees) == pytest.approx(value, abs=1e-3)


def test_paired_tests_see_differences_between_pairs_alone(significance: dict) -> None:
    ours, theirs = [1.0, 5.0, 9.0, 13.0], [0.9, 4.8, 8.9, 12.8]
    assert significance["paired_t"](ours, theirs) == pytest.approx(0.0138, abs=1e-4)
    assert significance["paired_t"](ours, ours) == 1
    assert math.isnan(significance["paired_t"]([1.0], [2.0]))
    assert significance["t_interval"]([1.0, 2.0, 3.0]) == pytest.approx(2.484, abs=1e-3)


def test_resampling_units_gives_the_interval_of_their_mean(significance: dict) -> None:
    values = np.random.default_rng(0).normal(size=400)
    expected = values.mean() - 1.96 * values.std() / 20, values.mean() + 1.96 * values.std() / 20
    assert significance["bootstrap"](values) == pytest.approx(expected, abs=0.01)
    assert significance["bootstrap"](values, significance["draws"](400)) == pytest.approx(expected, abs=0.01)
