"""Recipes with stages: one command trains them one after the other, each from the best of the one before it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import hoca
from hoca import recipes
from hoca.checkpoint import Checkpoints, read_checkpoint
from hoca.data import read_vocabulary
from hoca.errors import UserError
from hoca.models import create
from hoca.text import Vocabulary
from hoca.training import Recipe, read_recipe, train
from hoca.training.build import freeze
from hoca.training.recipe import Stage
from hoca.training.report import evaluate

from .tiny import column, finish, rows, start, tiny

STAGES = (
    Stage("words", {"model": {"reconstruction": 0.0}, "train": {"epochs": 3}}),
    Stage("both", {"model": {"reconstruction": 0.2}, "train": {"epochs": 2, "learning_rate": 0.01}}),
)


SHIPPED = [name for name in recipes.names() if read_recipe(name).stages]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_weight_may_learn_in_some_stage_of_a_recipe(name: str) -> None:
    """Also where a user gives the model categories, or an encoder that the recipe does without."""
    learned: set[str] = set()
    for stage in read_recipe(name).in_stages():
        options = dict(stage.model.options) | {"hidden": 4, "categories": ("music", "sports"), "category_width": 2}
        if "encoder" in options:
            options["encoder"] = "bilstm"
        widths = dict.fromkeys(stage.data.modalities or ("image",), 3)
        model: Any = create(stage.model.name, widths, Vocabulary(["a", "man"]), **options)
        freeze(model, stage.train.parts)
        learned |= {weight for weight, values in model.named_parameters() if values.requires_grad}
    assert learned == {weight for weight, _ in model.named_parameters()}


def staged(data: Path, run: Path, stages: tuple[Stage, ...] = STAGES, **keys: Any) -> Recipe:
    return replace(tiny(data, run, **{"model": "recnet-global", **keys}), stages=stages)


def best(run: Path) -> dict[str, Tensor]:
    return read_checkpoint(Checkpoints(run).best).part("model")


def assert_same_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert torch.equal(value, expected[name]), name


@pytest.fixture(scope="module")
def trained(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    recipe = staged(tiny_data, tmp_path_factory.mktemp("stages") / "run")
    train(recipe)
    return recipe


def test_the_second_stage_begins_from_the_best_of_the_first(trained: Recipe, tiny_data: Path, tmp_path: Path) -> None:
    """The same as two commands of which the second one says `init_from`."""
    run = Path(trained.run)
    alone = tiny(tiny_data, tmp_path / "alone", model="recnet-global", reconstruction=0.0, epochs=3)
    train(alone)
    assert_same_weights(best(run / "1-words"), best(tmp_path / "alone"))
    changes = {"reconstruction": 0.2, "epochs": 2, "learning_rate": 0.01, "init_from": str(tmp_path / "alone")}
    train(tiny(tiny_data, tmp_path / "second", model="recnet-global", **changes))
    assert_same_weights(best(run / "2-both"), best(tmp_path / "second"))
    assert column(run / "2-both", "loss") == column(tmp_path / "second", "loss")


def test_a_stage_takes_the_best_checkpoint_not_the_last(tiny_data: Path, tmp_path: Path) -> None:
    """The last epoch of the first stage is not validated."""
    first = Stage("first", {"train": {"epochs": 3, "validate_every": 2}})
    second = Stage("second", {"train": {"epochs": 1, "learning_rate": 0.0}})
    run = train(staged(tiny_data, tmp_path / "run", (first, second)))
    kept, last = best(run / "1-first"), read_checkpoint(Checkpoints(run / "1-first").newest()[0]).part("model")
    assert not all(torch.equal(value, last[name]) for name, value in kept.items())
    assert_same_weights(best(run / "2-second"), kept)


def test_a_stage_may_begin_elsewhere(trained: Recipe, tiny_data: Path, tmp_path: Path) -> None:
    given = Path(trained.run) / "1-words"
    stages = (Stage("a", {}), Stage("b", {"init_from": str(given), "train": {"learning_rate": 0.0}}))
    run = train(staged(tiny_data, tmp_path / "run", stages, epochs=1))
    assert_same_weights(best(run), best(given))


def test_the_run_folder_is_that_of_a_run(trained: Recipe) -> None:
    run, last = Path(trained.run), Path(trained.run) / "2-both"
    assert Checkpoints(run).best.read_bytes() == Checkpoints(last).best.read_bytes()
    assert read_recipe(run / "recipe.yaml") == trained
    assert read_vocabulary(run / "vocabulary.json") == hoca.load(run).model.vocabulary
    found = rows(run)
    assert [row["stage"] for row in found] == ["1-words"] * 3 + ["2-both"] * 2
    assert [row["epoch"] for row in found] == ["1", "2", "3", "1", "2"]
    assert [row["reconstruction"] != "" for row in found] == [False] * 3 + [True] * 2  # the first one has no such loss
    for name in ("loss", "CIDEr"):
        assert column(run, name) == [*column(run / "1-words", name), *column(last, name)]
    scores = evaluate(run, metrics=("CIDEr",), device="cpu")
    assert scores == evaluate(last, metrics=("CIDEr",), device="cpu")


def test_it_is_scored_on_the_data_of_its_last_stage(tiny_data: Path, tmp_path: Path) -> None:
    stages = (Stage("a", {}), Stage("b", {"data": {"folder": str(tiny_data)}}))
    with pytest.raises(UserError, match="nowhere"):
        train(staged(tmp_path / "nowhere", tmp_path / "run", stages, epochs=1))
    stages = (Stage("a", {"data": {"folder": str(tiny_data)}}), stages[1])
    run = train(staged(tmp_path / "nowhere", tmp_path / "run", stages, epochs=1))
    assert len(evaluate(run, metrics=("CIDEr",), device="cpu").per_video) == 6


def test_a_finished_run_stays_as_it_is(trained: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(trained.run)
    before = Checkpoints(run).best.read_bytes(), (run / "metrics.csv").read_bytes()
    train(trained, resume=True)
    assert (Checkpoints(run).best.read_bytes(), (run / "metrics.csv").read_bytes()) == before
    said = capsys.readouterr().err
    assert "stage 1 of 2: 1-words" in said
    assert "stage 2 of 2: 2-both" in said


def test_a_run_is_not_overwritten(trained: Recipe, tiny_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds a run already: add --resume to continue it, or choose another run="):
        train(trained)
    train(tiny(tiny_data, tmp_path / "plain", epochs=1))
    with pytest.raises(UserError, match="holds a run already"):
        train(staged(tiny_data, tmp_path / "plain"))


def test_a_stage_is_not_continued_with_another_recipe(trained: Recipe) -> None:
    first, second = trained.stages
    other = replace(second, changes={"train": {**second.changes["train"], "learning_rate": 0.5}})
    with pytest.raises(UserError, match=r"2-both was begun with train.learning_rate=0.01, now it is 0.5"):
        train(replace(trained, stages=(first, other)), resume=True)


@pytest.mark.parametrize("average", [0.0, 0.5])
def test_only_the_named_parts_learn(tiny_data: Path, tmp_path: Path, average: float) -> None:
    first = Stage("all", {"train": {"epochs": 1}})
    second = Stage("some", {"train": {"epochs": 2, "parts": ["words", "reconstructors"], "weight_decay": 0.1}})
    run = train(staged(tiny_data, tmp_path / "run", (first, second), ema_decay=average))
    before, after = best(run / "1-all"), read_checkpoint(Checkpoints(run / "2-some").newest()[0])
    moved = {name for name, value in after.part("model").items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if name.split(".")[0] in ("words", "reconstructors")}
    assert len({name.split(".")[0] for name in after.part("optimizer")}) == len(moved)
    for name in before.keys() - moved:
        assert torch.equal(best(run)[name], before[name]), name


def test_a_part_that_the_model_has_not_is_named(tiny_data: Path, tmp_path: Path) -> None:
    told = "parts names 'decoder', which recnet-global has not: known: attention, cell, encoder"
    with pytest.raises(UserError, match=told):
        train(tiny(tiny_data, tmp_path / "run", model="recnet-global", parts=["decoder"]))
    with pytest.raises(UserError, match="parts names 'word'"):  # the beginning of a name, dot by dot
        train(tiny(tiny_data, tmp_path / "run", model="recnet-global", parts=["word"]))
    with pytest.raises(UserError, match="parts names ''"):
        train(tiny(tiny_data, tmp_path / "run", model="recnet-global", parts=[""]))


def test_parts_without_weights_are_refused(tiny_data: Path, tmp_path: Path) -> None:
    """A start state has weights where there are categories."""
    with pytest.raises(UserError, match="parts names nothing of recnet-global that has weights"):
        train(tiny(tiny_data, tmp_path / "run", model="recnet-global", parts=["start"]))


def test_killed_in_any_stage_and_resumed_it_ends_with_the_same_bits(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the first stage, between the two, in the second; by SIGKILL, which nothing can prepare for."""
    settings = {"batch_size": 4, "captions_per_video": 1, "checkpoint_every": 3, "ema_decay": 0.8, "dropout": 0.3}
    first = Stage("first", {"model": {"reconstruction": 0.0}, "train": {"epochs": 3}})
    later = {"epochs": 3, "learning_rate": 0.01, "objective": "wxe", "gradient_clip": 1.0}
    second = Stage("second", {"model": {"reconstruction": 0.2}, "train": later})
    train(staged(tiny_data, tmp_path / "whole", (first, second), **settings))
    run, file = tmp_path / "killed", tmp_path / "killed.yaml"
    recipe = staged(tiny_data, run, (first, second), **settings)
    recipe.write(file)
    one, two = run / "1-first", run / "2-second"
    moments = (
        lambda: reached(one, 15),  # of 39
        lambda: (two / "recipe.yaml").exists() and not Checkpoints(two).newest(),
        lambda: reached(two, 15),
    )
    for number, moment in enumerate(moments):
        kill("train", file, *(["--resume"] if number else []), when=moment)
        assert not Checkpoints(run).best.exists()
    capsys.readouterr()
    train(recipe, resume=True)
    assert "resuming after epoch 3, step 39" in capsys.readouterr().err  # the first stage was over
    for folder in ("", "1-first", "2-second"):
        mine, theirs = run / folder, tmp_path / "whole" / folder
        assert rows(mine) == rows(theirs)
        assert_same_weights(best(mine), best(theirs))
    for folder in (one, two):
        mine = read_checkpoint(Checkpoints(folder).newest()[0])
        theirs = read_checkpoint(Checkpoints(tmp_path / "whole" / folder.name).newest()[0])
        assert_same_weights(mine.tensors, theirs.tensors)  # the optimizer's and the random generators', too
    assert not [path for path in run.rglob("*") if path.name.endswith(".tmp")]


def reached(folder: Path, step: int) -> bool:
    newest = Checkpoints(folder).newest()
    return bool(newest) and int(newest[0].stem.removeprefix("step-")) >= step


def kill(*arguments: str | Path, when: Callable[[], bool]) -> None:
    process = start(*arguments)
    deadline = time.monotonic() + 120
    while process.poll() is None and not when():
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    assert process.poll() is None, "the run was over before the moment came"
    os.killpg(process.pid, signal.SIGKILL)
    finish(process)
