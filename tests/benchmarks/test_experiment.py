"""Runs of several models end in one table, and are trained once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from hoca import assets
from hoca.errors import UserError

from ..training.tiny import tiny_file
from .scripts import start


def test_models_are_trained_once_and_compared(tiny_data: Path, tmp_path: Path) -> None:
    recipe = tiny_file(tmp_path, tiny_data, tmp_path / "run", epochs=1)
    out, runs = tmp_path / "table.csv", tmp_path / "runs"
    command = ["compare", recipe, "hoca-u", "sa-lstm", "beam=1", "--out", out, "--runs", runs, "--seeds", 1]
    start(*command, "--stage", "train", "--jobs", 2)
    losses = [json.loads(path.read_text()) for path in runs.glob("*/nats-test.json")]
    assert len(losses) == 2
    assert all(0.5 < loss < 4 for loss in losses)  # of about 20 words, a random one costs 3 nats
    written = {path: path.stat().st_mtime_ns for path in runs.rglob("best.safetensors")}
    try:
        assets.path("meteor-en")
    except UserError as error:
        pytest.skip(f"needs METEOR's word lists: {error}")
    start(*command)
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("best.safetensors")} == written
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["variant"], row["seeds"], row["videos"]) for row in rows] == [
        ("hoca-u", "1", "6"),
        ("sa-lstm", "1", "6"),
    ]
    assert all(float(row["CIDEr"]) >= 0 for row in rows)
