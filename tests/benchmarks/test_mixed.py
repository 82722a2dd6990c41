"""The study of mixed clips, at its smallest: from files of clips to a table."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from hoca import assets
from hoca.errors import UserError

from ..data.miniature import counted, write_clips
from .scripts import FOLDER

TINY = ["epochs=1", "hidden=4", "attention=4", "embedding=4", "beam=1", "max_length=6", "min_count=1"]


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    counted(monkeypatch)
    return importlib.import_module("mixed")


def test_clips_become_runs_and_runs_a_table(
    mixed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = write_clips(tmp_path / "source"), tmp_path / "study"
    for name in ("results", "docs"):
        (folder / name).mkdir(parents=True)
    table = folder / "runs.csv"
    places = ["--source", source, "--data", folder / "data", "--runs", folder / "runs", "--table", table]
    some = ["--folds", 2, "--seeds", 1, "--sizes", "pairs=1", "test_pairs=1"]
    variants = ["--variants", "hoca-u", "l-hoca-ubt", "sound alone"]
    out = ["--results", folder / "results", "--docs", folder / "docs"]

    def run(command: str) -> None:
        arguments = [command, *places, *some, *variants, *out, "--jobs", 1, "--overrides", *TINY]
        monkeypatch.setattr(sys, "argv", ["mixed", *map(str, arguments)])
        mixed.main()

    run("train")
    with table.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 3 * 2
    try:
        assets.path("meteor-en")
    except UserError as error:
        pytest.skip(f"needs METEOR's word lists: {error}")
    run("table")
    with (folder / "results" / "mixed-clips.csv").open(newline="") as file:
        rows = {row["variant"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["hoca-u", "l-hoca-ubt", "sound alone"]
    assert rows["hoca-u"]["runs"] == "2"
    assert not rows["hoca-u"]["gain over hoca-u"]
    for column in ("nearer by METEOR", "its captions likelier", "gain over sound alone", "likelier, gain over hoca-u"):
        assert " to " in rows["l-hoca-ubt"][column]
    assert (folder / "docs" / "mixed-clips.png").read_bytes().startswith(b"\x89PNG")


def test_a_caption_is_judged_by_the_clip_that_it_is_nearer_to(mixed: Any, tmp_path: Path) -> None:
    source, dataset = write_clips(tmp_path / "source"), "mixed-clips fold=0 folds=2"
    ids = [id for id, clip, _ in mixed.clip_features(source) if "audio" in clip]
    fold = mixed.Fold.of(source, dataset, ids)
    right = {video.id: video.captions[0] for video in fold.videos}
    wrong = {video.id: fold.captions[mixed.mixed_clips.other_of(video)][0] for video in fold.videos}
    neither = dict.fromkeys(right, "xyz")
    judge = mixed.Judge({dataset: fold})
    judge.score("CIDEr", dataset, [right, wrong, neither])
    for said, expected in ((right, 1.0), (wrong, 0.0), (neither, 0.5)):
        assert (judge.nearer("CIDEr", dataset, said) == expected).all()
    low, high = mixed.bootstrap(judge.nearer("CIDEr", dataset, right), fold.weights)
    assert low == high == 1


def test_the_pack_is_a_source_of_the_clips_with_sound(mixed: Any, tmp_path: Path) -> None:
    source = write_clips(tmp_path / "source")
    for name in ("train_val_annotation.zip", "test_videodatainfo.json.zip"):
        (source / "msrvtt" / name).write_bytes(b"an archive")
    mixed.pack(source, tmp_path / "pack")
    packed = [id for id, _, _ in mixed.clip_features(tmp_path / "pack")]
    assert packed == [id for id, clip, _ in mixed.clip_features(source) if "audio" in clip]
    assert (tmp_path / "pack" / "train_val_annotation.zip").read_bytes() == b"an archive"
