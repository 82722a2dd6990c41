"""Teaching a trained model one's own videos: the tutorial as it is printed, and what can go wrong."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

import hoca as package
from hoca.data import binding, read_corpus
from hoca.training import train

from .conftest import ROOT, Command
from .test_readme import BLOCK, Workshop
from .training.tiny import tiny

CLIPS = binding.BindingOptions(train=4, validation=2, test=2, captions=2, seconds=1.0, fps=8, picture=32, silent=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binding.prepare(tmp_path_factory.mktemp("own") / "data", CLIPS, videos=True)


@pytest.fixture(scope="module")
def start(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the light features, which need no weights."""
    return train(tiny(data, tmp_path_factory.mktemp("start") / "run", epochs=1))


@pytest.fixture
def small(start: Path, data: Path, tmp_path: Path) -> list[str]:
    """The recipe's keys for a run of seconds."""
    named = {"init_from": start, "data": data / "captions.jsonl", "videos": data / "videos", "run": tmp_path / "run"}
    return [*(f"{key}={value}" for key, value in named.items()), "epochs=1", "batch_size=4", "device=cpu"]


RECIPE = "finetune"


def test_features_are_made_words_learned_and_scores_printed(
    hoca: Command, small: list[str], data: Path, start: Path, tmp_path: Path
) -> None:
    captions = tmp_path / "captions.csv"  # what somebody has in a spreadsheet
    with open(captions, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "split", "caption"))
        for video in read_corpus(data / "captions.jsonl").videos:
            writer.writerows((video.id, video.split, caption) for caption in video.captions)
    result = hoca("train", RECIPE, *small, "min_count=1", f"data={captions}")
    assert result.code == 0
    assert "CIDEr" in result.out
    assert "scores of the test videos" in result.err
    tuned = package.load(tmp_path / "run")
    assert tuned.specification == package.load(start).specification
    assert (tmp_path / "run" / "captions-test.json").is_file()


def test_resuming_extracts_nothing_again(hoca: Command, small: list[str], tmp_path: Path) -> None:
    hoca("train", RECIPE, *small)
    features = sorted((tmp_path / "run" / "data" / "features").glob("*.safetensors"))
    before = [file.stat().st_mtime_ns for file in features]
    result = hoca("train", RECIPE, *small, "epochs=2", "--resume")
    assert result.code == 0
    assert [file.stat().st_mtime_ns for file in features] == before


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["init_from=null"], "videos is given without init_from"),
        (["videos=nosuch"], "nosuch is not there"),
        (["data=nosuch.jsonl"], "no captions file nosuch.jsonl"),
        (["data=."], "is a folder: with videos=, give the captions file"),
    ],
)
def test_mistakes_are_told_in_one_line(hoca: Command, small: list[str], changes: list[str], complaint: str) -> None:
    result = hoca("train", RECIPE, *small, *changes)
    assert result.code == 2
    assert complaint in result.complaint


def test_captions_without_a_video(hoca: Command, small: list[str], data: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    shutil.copy(data / "captions.jsonl", captions)
    with open(captions, "a") as file:
        file.write(json.dumps({"id": "lost", "split": "train", "captions": ["a lost clip"]}) + "\n")
    stopped = hoca("train", RECIPE, *small, f"data={captions}")
    assert stopped.code == 2
    assert "tells of lost" in stopped.complaint
    assert hoca("train", RECIPE, *small, f"data={captions}", "on_problem=skip").code == 0


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path, shallow_pictures: None) -> None:
    page = (ROOT / "docs" / "finetune.md").read_text(encoding="utf-8")
    commands = "".join(text for language, text in BLOCK.findall(page) if language == "sh").splitlines()
    workshop = Workshop(tmp_path)
    printed = [workshop.run(command) for command in commands]
    assert re.search(r"^CIDEr", printed[1], re.MULTILINE)
    assert len(printed[2].splitlines()) >= 2
