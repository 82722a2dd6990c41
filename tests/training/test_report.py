"""Scores of a run, and what it leaves in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hoca.checkpoint import load_model
from hoca.data import FolderDataset, evaluation_batches
from hoca.errors import UserError
from hoca.generation import Search, SentenceLimits, beam_search
from hoca.metrics import evaluate as score
from hoca.metrics import score_files
from hoca.training import train
from hoca.training.report import evaluate

from .tiny import tiny, write_dataset

FAST = ("BLEU-1", "CIDEr")


@pytest.fixture(scope="module")
def run(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny(tiny_data, tmp_path_factory.mktemp("report") / "run", epochs=4, beam=3, length_penalty=2.0))


def test_the_scores_are_those_of_the_sentences_that_are_left(run: Path, tiny_data: Path, tmp_path: Path) -> None:
    scores = evaluate(run, "test", metrics=FAST, out=tmp_path / "said.csv")
    sentences = json.loads((run / "captions-test.json").read_text())
    references = {video.id: list(video.captions) for video in FolderDataset(tiny_data).videos("test")}
    assert [line["image_id"] for line in sentences] == list(references)
    again = score(references, {line["image_id"]: line["caption"] for line in sentences}, FAST)
    assert again.corpus == scores.corpus == json.loads((run / "scores-test.json").read_text())
    theirs = tiny_data / "captions.jsonl"
    assert score_files(theirs, tmp_path / "said.csv", FAST, split="test").corpus == scores.corpus


def sentences(run: Path, **options: Any) -> list[str]:
    evaluate(run, "test", metrics=FAST, **options)
    return [line["caption"] for line in json.loads((run / "captions-test.json").read_text())]


def test_the_sentences_are_the_best_that_the_search_finds(run: Path, tiny_data: Path) -> None:
    model, expected = load_model(run).model, []
    for batch in evaluation_batches(FolderDataset(tiny_data), "test", 1):
        memory = model.encode(batch.features, batch.lengths)
        found = beam_search(model, memory, SentenceLimits(max_length=10), width=3, length_penalty=2.0)
        expected.append(found.texts(model.vocabulary)[0][0])
    assert sentences(run) == expected


def test_the_search_is_the_recipes(tiny_data: Path, tmp_path: Path) -> None:
    recipe = tiny(tiny_data, tmp_path / "run", beam=4, length_penalty=0.5, max_length=7, no_repeat=2)
    assert recipe.search.limits == SentenceLimits(max_length=7, no_repeat=2)
    assert load_model(train(recipe)).search == recipe.search == Search(4, 0.5, 7, 2)


def test_the_search_may_differ_from_the_recipes(run: Path) -> None:
    assert sentences(run) == sentences(run, beam=3) == sentences(run, length_penalty=2.0)
    assert sentences(run, length_penalty=0.0) != sentences(run) != sentences(run, beam=1)


def test_another_dataset_must_fit_the_model(run: Path, tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "other", counts={"train": 2, "test": 3})
    assert len(evaluate(run, "test", data=str(other), metrics=FAST).per_video) == 3
    with pytest.raises(UserError, match="no videos in the split 'validation'"):
        evaluate(run, "validation", data=str(other))
    with pytest.raises(UserError, match="split 'nosuch': choose train, validation, test"):
        evaluate(run, "nosuch")
    wide = write_dataset(tmp_path / "wide", {"image": 9, "motion": 5, "audio": 4}, {"test": 2})
    with pytest.raises(UserError, match=r"image features are 9 wide, the model in .* takes 6"):
        evaluate(run, "test", data=str(wide))
    lacking = write_dataset(tmp_path / "lacking", {"image": 6, "motion": 5}, {"test": 2})
    with pytest.raises(UserError, match="no modality 'audio'"):
        evaluate(run, "test", data=str(lacking))


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no trained model"):
        evaluate(tmp_path)
    with pytest.raises(UserError, match="there is no run"):
        evaluate(tmp_path / "nosuch")
