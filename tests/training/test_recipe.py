"""Recipes: what is wrong in one names itself; what is right survives being written and read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hoca.errors import UserError
from hoca.training import Recipe, read_recipe
from hoca.training.recipe import about

RECIPES = sorted((Path(__file__).parent.parent.parent / "recipes").glob("*.yaml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hiden: 8", "recipe.yaml: there is no key 'hiden': did you mean 'hidden'?"),
        ("learningrate: 8", "no key 'learningrate': did you mean 'learning_rate'?"),
        ("7: 8", "there is no key 7: known: run, seed"),
        ("hidden: many", "hidden='many' must be a whole number"),
        ("hidden: 8.5", "hidden=8.5 must be a whole number"),
        ("hidden: true", "hidden=True must be a whole number"),
        ("dropout: high", "dropout='high' must be a number"),
        ("dropout: 1.5", "dropout=1.5 in the recipe: must be at least 0 and below 1"),
        ("dropout: .nan", "dropout=nan must be a number"),
        ("learning_rate: .inf", "learning_rate=inf must be a number"),
        ("weight_decay: -1", "weight_decay=-1.0 in the recipe: at least 0 is needed"),
        ("batch: 0", "batch=0 in the recipe: at least 1 is needed"),
        ("share_projections: maybe", "share_projections='maybe' must be true or false"),
        ("merge: weigths", "merge='weigths' must be one of weights, logits, mixture"),
        ("modalities: image", "modalities='image' must be a list, like [image, motion]"),
        ("orders: [1, two]", "orders=[1, 'two'] must be a whole number"),
        ("groups: [image]", "groups=['image'] must be a list"),
        ("model: 5", "model=5 must be text"),
        ("vectors: [a]", "vectors=['a'] must be text"),
        ("- hidden", "must be a table of keys"),
        ("hidden: [", "is not YAML at line"),
        ("hidden: 1\nhidden: 2", "the key 'hidden' twice"),
    ],
)
def test_a_mistake_names_its_key_and_the_fix(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as error:
        read_recipe(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert "recipe" in str(error.value)


def test_overrides_are_checked_as_well() -> None:
    path = RECIPES[0]
    assert read_recipe(path, ["hidden=9", "orders=[1, 3]", "vectors=null"]).orders == [1, 3]
    for arguments, message in (
        (["hiden=9"], "the command line: there is no key 'hiden'"),
        (["hidden"], "'hidden' is not of the form key=value"),
        (["hidden="], "the command line: hidden=None must be a whole number"),
        (["orders=[1"], "no value that YAML can read"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            read_recipe(path, arguments)


def test_numbers_may_be_written_as_people_write_them(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, "learning_rate: 1e-4\ndropout: 0\n"), ["weight_decay=3e-2"])
    assert (recipe.learning_rate, recipe.dropout, recipe.weight_decay) == (1e-4, 0.0, 0.03)


def test_an_empty_recipe_is_the_paper(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, "# nothing\n"))
    assert recipe == Recipe()
    paper = (
        "hidden",
        "attention",
        "embedding",
        "dropout",
        "learning_rate",
        "rank",
        "batch",
        "captions",
        "epochs",
        "beam",
    )
    assert [getattr(recipe, key) for key in paper] == [512, 512, 300, 0.5, 1e-4, 1, 25, 1, 100, 5]


def test_a_recipe_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("run: caf\xe9".encode("latin-1"))
    with pytest.raises(UserError, match="is not UTF-8 text"):
        read_recipe(tmp_path / "latin.yaml")
    for path in (tmp_path / "nosuch.yaml", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            read_recipe(path)


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    changed: dict[str, Any] = {
        **{"run": "a # b: c", "modalities": ["image", "no"], "orders": [1, 4], "groups": [["a", "b"], ["c"]]},
        **{"learning_rate": 1e-12, "vectors": "ü.npz", "share_projections": True, "merge": "mixture", "average": 0.999},
    }
    for recipe in (Recipe(), Recipe(**changed)):
        recipe.write(tmp_path / "recipe.yaml")
        assert read_recipe(tmp_path / "recipe.yaml") == recipe


def test_every_key_of_a_written_recipe_says_what_it_means(tmp_path: Path) -> None:
    Recipe().write(tmp_path / "recipe.yaml")
    lines = (tmp_path / "recipe.yaml").read_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == list(about())
    assert all(line.endswith(f"  # {meaning}") for line, meaning in zip(lines, about().values(), strict=True))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_key_in_recipes_is_known_and_has_a_comment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\w+:", line)]
    assert [line.partition(":")[0] for line in lines] == list(yaml.safe_load(text))
    assert all(re.search(r"\S {2,}# \S", line) for line in lines)
    read_recipe(path)
