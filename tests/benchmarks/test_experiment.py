"""Runs are trained side by side, once each, wherever the table is continued."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..training.tiny import tiny_file
from .scripts import FOLDER, start

Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def experiment() -> Iterator[Any]:
    """The module itself, which the processes that it starts find as it is found here."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("experiment")
    sys.path.remove(str(FOLDER))


def read(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def runs(experiment: Any, tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two models, two seeds each; seed after seed of each model, as a careless list would have them."""
    recipe = tiny_file(tmp_path_factory.mktemp("recipe"), tiny_data, Path("run"), epochs=2, beam=1)
    return [
        experiment.Run("some", model, recipe, tiny_data, "tiny", (f"model={model}",), seed)
        for model in ("hoca-u", "sa-lstm")
        for seed in range(2)
    ]


@pytest.fixture(scope="module")
def made(experiment: Any, runs: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("made") / "table.csv"
    failed = experiment.train(runs, table, jobs=2, folder=table.parent / "runs", commit="abc", keep=["hoca-u"])
    assert failed == 0
    return table


def test_every_run_is_a_row_that_says_what_it_was(made: Path) -> None:
    rows = read(made)
    assert sorted((row["variant"], row["seed"]) for row in rows) == [
        *(("hoca-u", seed) for seed in "01"),
        *(("sa-lstm", seed) for seed in "01"),
    ]
    assert {row["seed"] for row in rows[:2]} == {"0"}, "each model has one seed before any has two"
    for row in rows:
        assert (row["commit"], row["device"], row["epochs"]) == ("abc", "CPU", "2")
        curve = [float(value) for value in row["curve"].split()]
        assert curve[int(row["best_epoch"]) - 1] == max(curve)
        assert float(row["CIDEr"]) >= 0
        assert 0.5 < float(row["nats"]) < 4  # of about 20 words, a random one costs 3 nats


def test_what_the_runs_said_is_kept_and_nothing_large(experiment: Any, made: Path) -> None:
    said = list(experiment.read_said(made))
    assert len(said) == 4
    assert all(name == "test" and len(captions) == 6 for _, name, captions in said)
    assert [path.suffix for path in (made.parent / "runs").iterdir()] == [".log"] * 2
    assert len(list(made.parent.glob("hoca-u-0-0-*.safetensors"))) == 1
    assert len(list(made.parent.glob("*.safetensors"))) == 1


def test_what_a_table_has_is_not_trained_again(experiment: Any, made: Path, runs: list[Any], tmp_path: Path) -> None:
    before = made.read_bytes()
    assert experiment.train(runs, made, folder=tmp_path) == 0
    assert made.read_bytes() == before
    part = tmp_path / "part.csv"
    assert experiment.train(runs, part, done=[made], folder=tmp_path) == 0
    assert not part.exists()


def test_no_run_starts_when_the_time_is_over(experiment: Any, runs: list[Any], tmp_path: Path) -> None:
    assert experiment.train(runs, tmp_path / "table.csv", minutes=0, folder=tmp_path / "runs") == 0
    assert not (tmp_path / "table.csv").exists()


def test_a_run_that_fails_leaves_the_others(
    experiment: Any, runs: list[Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = experiment.Run("some", "wrong", runs[0].recipe, runs[0].data, "tiny", ("hidden=-1",))
    table = tmp_path / "table.csv"
    assert experiment.train([wrong, runs[0]], table, folder=tmp_path / "runs") == 1
    assert [row["variant"] for row in read(table)] == ["hoca-u"]
    assert "hidden=-1" in capfd.readouterr().err


def test_parts_of_several_machines_become_one_table(experiment: Any, made: Path, tmp_path: Path) -> None:
    rows = read(made)
    parts = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for part, some in zip(parts, (rows[:3], rows[2:]), strict=True):
        experiment.write(part, some)
        experiment.write(experiment.beside(part, "attention"), [row | {"share": n} for row in some for n in range(2)])
        experiment.beside(part, "captions").write_bytes(experiment.beside(made, "captions").read_bytes())
    table = tmp_path / "all.csv"
    start("experiment", "merge", table, *parts)
    assert sorted(map(experiment.key_of, read(table))) == sorted(map(experiment.key_of, rows))
    assert len(read(tmp_path / "all.attention.csv")) == 2 * 4
    assert len(list(experiment.read_said(table))) == 4
    start("experiment", "merge", table, *parts)
    assert len(read(table)) == 4
