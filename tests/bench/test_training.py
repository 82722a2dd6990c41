"""The benchmarks at a size that a processor finishes in seconds: what they check, and what they write."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from hoca.bench.train import Options, PathOption, _rows_of_model
from hoca.bench.word_by_word import WordByWordStep
from hoca.bench.workload import caption_lengths
from hoca.data import Batch
from hoca.errors import UserError
from hoca.training.step import Losses, PlainStep

from ..conftest import Command

SMALL = ["words=5", "steps=6", "hidden=8", "attention=8", "vocabulary=40", "calls=3"]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_path_has_the_losses_of_the_word_by_word_step(hoca: Command, tmp_path: Path) -> None:
    lengths = tmp_path / "lengths.npz"
    np.savez(lengths, lengths=np.random.default_rng(0).integers(1, 9, (10, 3)))
    options = ["videos=3", "together=1", "compare=3", "joined=[hoca-u]", "epoch_captions=3", f"lengths={lengths}"]
    out = tmp_path / "table.csv"
    result = hoca("bench", "train", *SMALL, *options, "models=[hoca-u, hoca-ubt]", "--device", "cpu", "--out", out)
    assert result.code == 0
    rows = table(out)
    assert [row["path"] for row in rows[:4]] == ["word by word", "plain", "captured", "captured"]
    assert len(rows) == 11
    assert all(row["correct"] == "True" and row["times_faster"] and row["time_to_unary"] for row in rows)
    assert {row["model"] for row in table(tmp_path / "table-curves.csv")} == {"hoca-u", "hoca-ubt"}
    epochs = table(tmp_path / "table-epoch.csv")
    assert [row["epoch"] for row in epochs] == ["1", "2"] * 2
    assert {row["dataset_videos"] for row in epochs} == {"10"}


def test_a_step_with_rewards_is_measured_beside_one_without(hoca: Command, tmp_path: Path) -> None:
    options = ["videos=3", "captions=2", "samples=2", "dataset_videos=4", "references=3", "together=1"]
    out = tmp_path / "table.csv"
    result = hoca("bench", "reward", *SMALL, *options, "models=[hoca-u, sa-lstm]", "--device", "cpu", "--out", out)
    assert result.code == 0
    rows = table(out)
    steps = [("xe", "captured"), ("scst-loo", "plain"), ("scst-loo", "captured")]
    assert [(row["objective"], row["path"]) for row in rows] == 4 * steps
    assert all(row["correct"] == "True" for row in rows)
    for row, xe in zip(rows, [row for row in rows[::3] for _ in range(3)], strict=True):
        assert float(row["time_to_xe"]) == pytest.approx(float(row["ms"]) / float(xe["ms"]), rel=0.01)


def test_one_timing_has_no_spread(hoca: Command, tmp_path: Path) -> None:
    options = ["videos=2", "models=[hoca-u]", "calls=1"]
    result = hoca("bench", "train", *SMALL, *options, "--device", "cpu", "--out", tmp_path / "table.csv")
    assert result.code == 2
    assert "calls=1 must be at least 2" in result.err


def test_a_path_that_computes_something_else_gets_no_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    class Wrong(PlainStep):
        def __call__(self, batch: Batch, rate: float) -> Losses:
            return {name: 1.01 * loss for name, loss in super().__call__(batch, rate).items()}

    options = Options(2, 1, 3, 4, 8, 8, 30, calls=3, together=1)
    paths = [PathOption("word by word", "float32", WordByWordStep), PathOption("wrong", "float32", Wrong)]
    right, wrong = _rows_of_model(options, "hoca-u", paths, torch.device("cpu"))
    assert (right["correct"], right["times_faster"]) == (True, "1")
    assert (wrong["correct"], wrong["times_faster"]) == (False, "")
    assert "no ratio is given" in capsys.readouterr().err


def test_both_searches_find_the_same_sentences(hoca: Command, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    options = ["videos=7", "at_once=4", "models=[l-hoca-ubt]"]
    assert hoca("bench", "generate", *SMALL, *options, "--device", "cpu", "--out", out).code == 0
    rows = table(out)
    assert [row["path"] for row in rows] == ["plain", "captured", "encoded and captured"] * 2
    assert all(float(row["same"]) == 1 for row in rows if row["precision"] == "float32")


def test_metrics_are_measured_in_captions_a_second(hoca: Command, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    assert hoca("bench", "metrics", "videos=20", "references=2", "--device", "cpu", "--out", out).code == 0
    assert {"BLEU-4", "ROUGE-L", "CIDEr"} <= {row["metric"] for row in table(out)}
    assert all(float(row["captions_per_second"]) > 1 for row in table(out))


def test_an_unknown_key_is_an_error(hoca: Command) -> None:
    result = hoca("bench", "train", "vidoes=3")
    assert result.code == 2
    assert "videos" in result.complaint


def test_lengths_are_those_of_the_official_captions(shared_data: Path) -> None:
    lengths = caption_lengths(str(shared_data / "msrvtt"))
    assert lengths is not None
    assert lengths.shape == (6513, 20)
    assert 9 < lengths.mean() < 10


def test_lengths_from_a_file_that_is_none_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \.npz"):
        caption_lengths(str(tmp_path / "absent.npz"))
