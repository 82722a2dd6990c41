"""CPU threads: chosen by the work, beside whatever else runs, unless the user has chosen."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hoca.threads import cores, free_cores, threads_for, use_threads

from .conftest import Command
from .training.tiny import tiny_file


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a user's shell has it, and torch as it was afterwards."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "PASSIVE None"), ({"GOMP_SPINCOUNT": "5"}, "None 5"), ({"OMP_WAIT_POLICY": "active"}, "active None")],
)
def test_threads_that_wait_sleep_unless_the_user_says_otherwise(given: dict[str, str], found: str) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    code = "import os, hoca; print(os.environ.get('OMP_WAIT_POLICY'), os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], env=clean | given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found


def test_small_work_has_one_thread_and_large_work_all_cores() -> None:
    assert threads_for(1_000_000) == 1
    assert threads_for(10**12) == cores()
    assert threads_for(0) == 1


def test_a_block_has_its_threads_and_what_follows_those_before() -> None:
    def fail() -> None:
        with use_threads(1):
            assert torch.get_num_threads() == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3


def test_who_has_chosen_is_left_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with use_threads(1):
        assert torch.get_num_threads() == 3


def test_busy_cores_are_not_free() -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        time.sleep(0.3)
        assert free_cores() == 1
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_a_small_training_says_that_it_has_one_thread(hoca: Command, tiny_data: Path, tmp_path: Path) -> None:
    result = hoca("train", tiny_file(tmp_path, tiny_data, tmp_path / "run", epochs=1))
    assert " weights on cpu, 1 thread; " in result.err
    assert torch.get_num_threads() == 3


def test_an_option_fixes_the_number(hoca: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # so that it is put back
    assert "holds no trained model" in hoca("evaluate", tmp_path, "--threads", "2").complaint
    assert (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]) == (2, "2")
    assert "'--threads'" in hoca("evaluate", tmp_path, "--threads", "0").complaint


def test_the_benchmark_compares_the_default_with_fixed_numbers(hoca: Command, tmp_path: Path) -> None:
    out = tmp_path / "threads.csv"
    sizes = ["repeats=1", "epochs=2", "train_videos=10", "clips=0", "counts=[1]", "torch=false", "limit=500"]
    result = hoca("bench", "threads", *sizes, "beside=[one busy process]", "--out", out)
    assert result.code == 0, result.err
    with out.open(newline="") as file:
        rows = {row["threads"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["default", "1"]
    assert {row["beside"] for row in rows.values()} == {"one busy process"}
    assert min(float(row["times_best"]) for row in rows.values()) == 1
    assert "no 'noise'" in hoca("bench", "threads", "beside=[noise]").complaint
