"""The model that hoca ships: what its variants train, how its confidence is fitted, what its file holds."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hoca.checkpoint import load_model, read_checkpoint
from hoca.generation import Confidence
from hoca.training import train
from hoca.training.recipe import Recipe

from ..training.tiny import tiny
from .scripts import script, start

default_model = SimpleNamespace(**script("default_model"))


def run_of(folder: Path, variant: str = "picture", fold: str = "0") -> Any:
    return default_model.Run(variant, fold, 0, folder)


@pytest.mark.parametrize("variant", default_model.VARIANTS)
def test_every_variant_is_a_recipe_of_two_stages(variant: str, tmp_path: Path) -> None:
    recipe = Recipe.of(default_model.recipe_of(run_of(tmp_path, variant), tmp_path / "data", "words.npz"))
    words, rewards = recipe.in_stages()
    assert (words.train.objective, rewards.train.objective) == ("wxe", "beam-reward")
    assert words.data.word_vectors == "words.npz"
    assert rewards.train.validate_every == rewards.train.epochs  # the last weights are kept
    assert set(rewards.model.options["word_detector"]) <= set(rewards.data.modalities)
    assert rewards.data.folder == str(tmp_path / "data")


def test_the_chosen_variant_is_the_recipe_itself(tmp_path: Path) -> None:
    chosen = default_model.recipe_of(run_of(tmp_path, default_model.CHOSEN), tmp_path, None)
    asked = Recipe.of(chosen).in_stages()
    shipped = load_model().model
    assert list(shipped.config.modalities) == list(asked[-1].data.modalities)
    assert shipped.name == asked[-1].model.name
    assert load_model().search == replace(asked[-1].search, not_first=default_model.NOT_FIRST)


def test_sentences_are_stored_and_ordered_as_the_search_weighs_them(tmp_path: Path) -> None:
    rows = [{"text": "a dog", "score": -1.0, "evidence": 0.0}, {"text": "a cat", "score": -1.1, "evidence": 1.0}]
    for variant, first in (("picture", "a cat"), ("small unary", "a dog")):
        run = run_of(tmp_path / variant, variant)
        run.folder.mkdir()
        with gzip.open(run.stored("test"), "wt") as file:
            file.write(json.dumps({"id": "x", "sentences": rows}) + "\n")
        assert default_model.stored(run, "test")["x"][0]["text"] == first


def test_a_logistic_regression_finds_the_weights_that_made_the_data() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(20_000, 2))
    truth = np.array([1.5, -0.5, 0.3])
    y = random.random(len(x)) < default_model.logistic(x, truth)
    found = default_model.fit_logistic(x, y)
    np.testing.assert_allclose(found, truth, atol=0.08)
    p = default_model.logistic(x, found)
    assert default_model.calibration_error(p, y) < 0.02
    assert 0.7 < default_model.area(p, y) < 0.95
    assert default_model.area(-p, y) == pytest.approx(1 - default_model.area(p, y))
    assert default_model.spearman(p, p**3) == pytest.approx(1)


def test_people_are_compared_with_each_other() -> None:
    captions = {
        "one": ["a dog runs on the grass", "a dog runs on grass", "a dog runs over grass", "words of nothing else"],
        "two": ["a man cooks food", "a man cooks some food", "a man is cooking", "other things entirely"],
    }
    human = default_model.median_of_people(captions)
    mine = default_model.per_video(captions, {"one": "a dog runs on the grass", "two": "nothing of it"})
    assert mine["one"] > human["one"] > 0
    assert mine["two"] < human["two"]


def test_an_interval_is_wider_where_videos_share_a_source() -> None:
    values = {str(number): float(number % 2) for number in range(100)}
    alone = default_model.interval(values, {id: id for id in values})
    shared = default_model.interval(values, {id: str(int(id) % 2) for id in values})
    assert alone.startswith("+0.5 [+0.4")
    assert shared == "+0.5 [+0.0, +1.0]"


def test_a_file_to_ship_holds_what_captioning_needs_and_no_more(tiny_data: Path, tmp_path: Path) -> None:
    run = train(tiny(tiny_data, tmp_path / "run", epochs=1, tie_words=True, word_detector=["image"]))
    sure, out = tmp_path / "confidence.json", tmp_path / "shipped.safetensors"
    sure.write_text(json.dumps(Confidence(bias=1.0, logprob=2.0).to_json()))
    start("default_model", "ship", run, out, "--confidence", sure)
    needed = {"model", "config", "vocabulary", "specification", "search", "confidence"}
    assert set(read_checkpoint(out).facts) == needed
    assert load_model(out).confidence == Confidence(bias=1.0, logprob=2.0)
    start("default_model", "ship", run, out)
    assert load_model(out).confidence is None


def test_seeds_are_stored_together_and_shipped_as_one(
    tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data-0").symlink_to(tiny_data)
    options = default_model.argparse.Namespace(data=tmp_path / "data", runs=tmp_path, variants=["picture"], folds=["0"])
    options.seeds = [0, 1, 2]
    runs = default_model.runs_of(options)
    for run in runs[:2]:  # the third is not finished
        train(tiny(tiny_data, run.folder, seed=run.seed, epochs=1))
        default_model.store(options, run, "validation")
    monkeypatch.setitem(default_model.ensembles.__globals__, "prepare", lambda options: None)  # the data are here
    default_model.ensembles(options)
    (together,) = default_model.runs_of(default_model.replaced(options, ["picture, 2 together"], ["0"], [0]))
    found = default_model.stored(together, "validation")
    assert found.keys() == default_model.stored(runs[0], "validation").keys()
    assert not together.stored("test").is_file()
    assert not (tmp_path / "picture-3-together-0-0").exists()
    out = tmp_path / "shipped.safetensors"
    start("default_model", "ship", *(run.folder for run in runs[:2]), out)
    shipped, joined = load_model(out), load_model(together.folder)
    assert shipped.model.config == joined.model.config
    assert len(shipped.model.config.members) == 2


def test_variants_that_differ_in_their_rewards_alone_share_the_words(tmp_path: Path) -> None:
    options = SimpleNamespace(data=tmp_path / "data", words="", runs=tmp_path, variants=[], folds=[], seeds=[])
    chosen, *others = (
        default_model.runs_of(default_model.replaced(options, [name], ["0"], [0]))[0]
        for name in (default_model.CHOSEN, "picture and change, METEOR in the reward", "picture")
    )
    (chosen.folder / "1-words").mkdir(parents=True)
    (chosen.folder / "1-words" / "learned").write_text("words")
    default_model.share_words(options, others[0])
    assert not others[0].folder.exists(), "they are not all learned yet"
    (chosen.folder / "2-rewards").mkdir()
    for run in others:
        default_model.share_words(options, run)
    assert (others[0].folder / "1-words" / "learned").read_text() == "words"
    assert not others[1].folder.exists(), "other modalities: other words"
