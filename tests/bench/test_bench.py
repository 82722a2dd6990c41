from __future__ import annotations

import csv
import math
import time
from pathlib import Path

import pytest
import torch

from hoca.bench import CONDITIONS, Timing, conditions, measure, peak_memory, ratio, relative_error, write_rows

CPU = torch.device("cpu")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_timing_is_the_median_with_the_quartiles_around_it() -> None:
    found = measure(lambda: time.sleep(0.002), CPU, calls=5, warmup=0)
    assert 0.002 <= found.low <= found.median <= found.high < 0.1
    assert found.calls == 5


def test_slow_calls_are_repeated_three_times_only() -> None:
    assert measure(lambda: time.sleep(0.01), CPU, calls=50, warmup=0, at_most=0.001).calls == 3


def test_the_conditions_name_the_machine_and_the_versions() -> None:
    found = conditions(CPU)
    assert tuple(found) == CONDITIONS
    assert found["torch"] == torch.__version__
    assert found["commit"]


def test_memory_is_measured_on_a_gpu_only() -> None:
    assert peak_memory(lambda: None, CPU) is None


def test_no_ratio_is_given_while_the_check_fails() -> None:
    slow, fast = Timing(0.3, 0.3, 0.3, 5), Timing(0.1, 0.1, 0.1, 5)
    assert ratio(slow, fast, correct=True) == "3"
    assert ratio(slow, fast, correct=False) == ""


def test_an_error_with_a_nan_is_within_no_bound() -> None:
    assert relative_error(torch.ones(3) * 1.01, torch.ones(3)) == pytest.approx(0.01, rel=1e-3)
    assert math.isnan(relative_error(torch.tensor([1.0, math.nan]), torch.ones(2)))


def test_rows_replace_those_of_the_same_device_and_keys(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    write_rows(out, [{"device": "a", "size": 1, "ms": 5}, {"device": "a", "size": 2, "ms": 6}], ["size"])
    write_rows(out, [{"device": "b", "size": 1, "ms": 7}, {"device": "a", "size": 1, "ms": None}], ["size"])
    assert [tuple(row.values()) for row in table(out)] == [("a", "2", "6"), ("b", "1", "7"), ("a", "1", "")]
