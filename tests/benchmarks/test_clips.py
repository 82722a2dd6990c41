"""The study of the clips with three modalities, at its smallest: from files of clips to tables and figures."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ..data.miniature import counted, write_clips
from .scripts import FOLDER, start

TINY = ["epochs=1", "hidden=4", "attention=4", "embedding=4", "beam=1", "max_length=6", "min_count=1"]


@pytest.fixture
def clips(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    counted(monkeypatch)
    return importlib.import_module("clips")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_clips_become_runs_and_runs_tables(clips: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source, table = write_clips(tmp_path / "source"), tmp_path / "runs.csv"
    for name in ("results", "docs"):
        (tmp_path / name).mkdir()
    places = ["--source", source, "--folder", tmp_path / "data", "--runs", tmp_path / "runs", "--table", table]
    out = ["--results", tmp_path / "results", "--docs", tmp_path / "docs"]
    some = ["--folds", 3, "--variants", "hoca-u", "hoca-u category"]

    def run(command: str) -> None:
        arguments = [command, *places, *out, *some, "--jobs", 2, "--overrides", *TINY, "precision=float32"]
        monkeypatch.setattr(sys, "argv", ["clips", *map(str, arguments)])
        clips.main()

    run("table")
    assert not list((tmp_path / "results").iterdir()), "what was not measured is in no table"
    run("train")
    trained = rows(table)
    assert len(trained) == 2 * 3
    weights = {row["study"]: int(row["weights"]) for row in trained}
    assert weights["category"] > weights["table"], "the start state has weights of its own"
    monkeypatch.setattr(clips, "fill_in_meteor", lambda *_: None)
    run("table")
    summary = rows(tmp_path / "results" / "clips.csv")
    assert [(row["variant"], row["folds"]) for row in summary] == [("hoca-u", "3"), ("hoca-u category", "3")]
    assert all(0 < float(row["nats"]) < 5 and float(row["nats ci"]) >= 0 for row in summary)
    (test,) = rows(tmp_path / "results" / "clips-tests.csv")
    assert (test["variant"], test["against"], test["pairs"]) == ("hoca-u category", "hoca-u", "3")
    assert (tmp_path / "docs" / "curves-clips.png").read_bytes().startswith(b"\x89PNG")


def test_a_difference_is_tested_by_folds_and_by_sources(clips: Any) -> None:
    """Two clips of one source always come together, so they tell no more than one."""
    found, cider = [], {}
    for variant, gain in (("hoca-u", 0.0), ("l-hoca-ubt", 0.1), ("l-hoca-ubt rank 2", 0.3)):
        for fold in range(3):
            row = {"variant": variant, "dataset": "d", "recipe": "r", "overrides": variant, "seed": "0"}
            row |= {"fold": str(fold), "CIDEr": 0.2 + gain + 0.01 * fold, "nats": 3 - gain + 0.1 * fold}
            found.append(row)
            cider[clips.key_of(row)] = {f"{fold}-{clip}": gain for clip in range(4)}
    sources = {id: id[:-1] for each in cider.values() for id in each}
    lines = {(line["variant"], line["against"]): line for line in clips.tests(found, cider, sources)}
    assert set(lines) == {
        *((name, "hoca-u") for name in ("l-hoca-ubt", "l-hoca-ubt rank 2")),
        ("l-hoca-ubt rank 2", "l-hoca-ubt"),
    }
    line = lines["l-hoca-ubt rank 2", "l-hoca-ubt"]
    assert (line["pairs"], line["CIDEr difference"], line["nats difference"]) == (3, 20.0, -0.2)
    assert line["CIDEr, interval over sources"] == "20.0 to 20.0"
    weights = clips._weights(["a", "b", "c"], {"a": "one", "b": "one", "c": "two"})
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 0] + weights[:, 2] == 2).all()


def test_the_list_names_every_run_of_every_study(tmp_path: Path) -> None:
    listed = [
        line.split(" | ")
        for line in start("clips", "train", "--list", "--done", "--table", tmp_path / "none.csv").splitlines()
    ]
    assert len(listed) == len({tuple(line[2:]) for line in listed}) == 5 * (9 + 4 + 3)
    assert {line[1] for line in listed if line[2].endswith("category")} == {
        f"{name} category" for name in ("hoca-u", "l-hoca-ubt", "hoca-ubt")
    }
    assert all("learning_rate=0.001 dropout=0.5" in line[4] for line in listed)
    changed = start("clips", "train", "--list", "--overrides", "learning_rate=0.001").splitlines()
    assert all("learning_rate=0.001 dropout=0.5" in line for line in changed)


def test_the_pack_is_a_source(clips: Any, tmp_path: Path) -> None:
    source = write_clips(tmp_path / "source")
    for name in ("train_val_annotation.zip", "test_videodatainfo.json.zip"):
        (source / "msrvtt" / name).write_bytes(b"an archive")
    clips.pack(SimpleNamespace(source=source, carry=tmp_path / "carry", data=[clips.DATA.name]))
    packed = {path.name for path in (tmp_path / "carry" / "msrvtt").iterdir()}
    assert packed == {"train_val_annotation.zip", "test_videodatainfo.json.zip", "category.txt", "clip-features.npz"}
