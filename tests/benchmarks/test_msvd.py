"""The study of MSVD: its steps, what validation chooses, and the vectors that travel with the data."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hoca import assets
from hoca.data import load_vectors
from hoca.training import read_recipe

from .scripts import FOLDER


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("msvd")


@pytest.fixture
def options(study: Any, tmp_path: Path) -> SimpleNamespace:
    places = {"source": tmp_path, "carry": tmp_path / "carry", "folder": tmp_path / "data"}
    return SimpleNamespace(**places, systems=study.SYSTEMS, first_seed=0, seeds=3, overrides=[])


def recipe_of(run: Any, tmp_path: Path) -> Any:
    return read_recipe(run.recipe, (*run.overrides, *run.files, f"run={tmp_path}"))


def test_every_step_runs_to_the_end_of_its_schedule(study: Any, options: SimpleNamespace, tmp_path: Path) -> None:
    runs = study.runs(options)
    assert len({run.key for run in runs}) == len(runs) == 33
    assert Counter(run.variant.split()[0] for run in runs) == {"l-hoca-ub": 15, "hoca-u": 9, "hoca-ub": 9}
    for run in runs:
        recipe = recipe_of(run, tmp_path)
        assert recipe.train.validate_every == recipe.train.epochs, "the last weights are kept"
        assert recipe.train.objective == run.study.split()[0]
        assert run.study == run.variant.split(" ", 1)[1]
        assert (run.after is not None) == (run.study in study.REWARDS)
        if run.after:
            assert (run.after.kept, run.after.seed, run.after.study) == (True, run.seed, study.LAST)
            assert not run.files, "the weights that it begins from have the vectors"


def test_vectors_are_part_of_what_a_run_is_and_their_place_is_not(study: Any, options: SimpleNamespace) -> None:
    asset = {run.key: run for run in study.runs(options)}
    packed = study.words_file(options.source)
    packed.parent.mkdir()
    packed.touch()
    carried = {run.key: run for run in study.runs(options)}
    assert list(asset) == list(carried)
    plain, vectors = (next(run for run in asset.values() if run.study == name) for name in ("xe", "xe + vectors"))
    assert plain.overrides == vectors.overrides
    assert plain.key != vectors.key
    assert (plain.files, vectors.files) == ((), (f"word_vectors={study.VECTORS}",))
    assert carried[vectors.key].files == (f"word_vectors={packed}",)


def test_the_rewards_of_the_beam_are_those_of_the_shipped_model(
    study: Any, options: SimpleNamespace, tmp_path: Path
) -> None:
    shipped = read_recipe("default").in_stages()[-1]
    recipe = next(recipe_of(run, tmp_path) for run in study.runs(options) if run.study == "beam-reward")
    for key in (
        "objective",
        "samples",
        "captions_per_video",
        "epochs",
        "learning_rate",
        "label_smoothing",
        "xe_weight",
    ):
        assert getattr(recipe.train, key) == getattr(shipped.train, key), key
    for key in ("dropout", "encoder_dropout"):
        assert recipe.model.options[key] == shipped.model.options[key]


def test_validation_chooses_by_means_over_seeds(study: Any) -> None:
    rows = []
    for variant, nats, ciders in (("a xe", 3.0, (0.5, 0.7)), ("a beam-reward", 3.5, (0.65, 0.67))):
        for seed, cider in enumerate(ciders):
            row = dict.fromkeys((*study.SCORES, "nats"), "0.4") | {"METEOR": "", "BLEU-4": "0.0"}
            row |= dict.fromkeys(("epochs", "best_epoch"), "8")
            rows.append(row | {"variant": variant, "seed": seed, study.LOSS: str(nats), study.CIDER: str(cider)})
    words, reward = study.lines(rows)
    assert (words["chosen by"], reward["chosen by"]) == ("nats", "CIDEr")
    assert words[study.CIDER].startswith("60.0 ± ")
    assert (words["METEOR"], words["BLEU-4"]) == ("", "0.0 ± 0.0"), "nothing is not the same as zero"


def test_packed_vectors_are_those_that_a_run_would_find(
    study: Any, options: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = tmp_path / "all.npz"
    np.savez(everything, words=["Dog", "cat", "a", "boat"], vectors=np.arange(8, dtype=np.float32).reshape(4, 2))
    monkeypatch.setattr(assets, "path", lambda name: everything)
    captions = ["a dog", "a dog and a cat", "a cat and a bird"]
    monkeypatch.setattr(study.msvd, "read", lambda source: SimpleNamespace(captions=lambda split: captions))
    study.pack_words(tmp_path, options.carry)
    words = ["<bos>", "a", "and", "cat", "dog"]
    for ours, theirs in zip(
        load_vectors(study.words_file(options.carry), words), load_vectors(everything, words), strict=True
    ):
        assert torch.equal(ours, theirs)
    with np.load(study.words_file(options.carry)) as packed:
        assert set(packed["words"].tolist()) == {"a", "cat", "dog"}
