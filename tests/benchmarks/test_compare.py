"""The comparison of captioners, at its smallest: settings are tried, seeds and rewards follow, the page is filled."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hoca.data import Corpus, Video, write_corpus
from hoca.data.vectors import category_vectors
from hoca.models import names
from hoca.training import read_recipe

from .scripts import FOLDER, script, start

ROOT = Path(__file__).resolve().parents[2]
TINY = ["epochs=1", "patience=1", "beam=1", "precision=float32", "hidden=8", "embedding=8", "max_length=6", "samples=2"]
SIZES = ["train=20", "validation=4", "test=6", "seconds=2"]
PAGE = "# Page\n\n<!-- comparison on binding -->\nold\n<!-- end -->\n"


@pytest.fixture(scope="module")
def compare() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(FOLDER))  # it imports the scripts beside it
    yield script("compare")
    sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    (folder / "page.md").write_text(PAGE)
    start("compare", "all", *arguments(folder), "--jobs", 1)
    return folder


def arguments(folder: Path) -> list[object]:
    places = ["--folder", folder / "data", "--runs", folder / "runs", "--table", folder / "runs.csv"]
    out = ["--out", folder / "comparison.csv", "--page", folder / "page.md"]
    some = ["--data", "binding", "--systems", "cst", "hoca-u", "--settings", 2, "--seeds", 2]
    return [*places, *out, *some, "--sizes", *SIZES, "--overrides", *TINY]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_settings_are_tried_on_one_seed_and_the_best_is_trained_with_the_others_and_the_reward(study: Path) -> None:
    found = rows(study / "comparison.csv")
    for system in ("cst", "hoca-u"):
        mine = [row for row in found if row["system"] == system]
        first = [row for row in mine if (row["objective"], row["seed"]) == ("xe", "0")]
        best = max(first, key=lambda row: float(row["dev CIDEr"]))
        assert len({row["setting"] for row in first}) == len(first) == 2
        assert {row["setting"] for row in mine if row["chosen"]} == {best["setting"]}
        kinds = Counter((row["objective"], row["seed"]) for row in mine if row["chosen"])
        assert kinds == {(objective, seed): 1 for objective in ("xe", "scst-loo") for seed in "01"}
    for row in found:
        assert int(row["parameters"]) > 0
        assert float(row["seconds_an_epoch"]) > 0
        assert float(row["captions_a_second"]) > 0
        assert row["METEOR"]


def test_a_table_exists_early_and_rewards_come_last(study: Path) -> None:
    trained = rows(study / "runs.csv")
    assert [row["variant"] for row in trained[:2]] == ["cst", "hoca-u"]
    assert [row["study"] for row in trained] == ["xe"] * 6 + ["scst-loo"] * 4


def test_what_is_finished_is_not_trained_again(study: Path) -> None:
    before = (study / "runs.csv").read_bytes()
    assert start("compare", "train", *arguments(study), "--list") == ""
    assert (study / "runs.csv").read_bytes() == before


def test_the_page_shows_what_was_measured_and_leaves_the_rest_empty(study: Path) -> None:
    page = (study / "page.md").read_text()
    assert "8 of 200 runs are finished, each with the best of 2 settings." in page
    lines = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert "±" in lines["cst"]
    assert lines["hoca-t"].replace("|", "").split() == ["`hoca-t`"]
    assert lines["cst"].startswith("| `cst` | A | ")  # the class
    assert lines["tddf"].startswith("| `tddf`-style | C | ")


def test_the_page_of_the_project_is_what_the_results_say(compare: dict[str, Any]) -> None:
    text = compare["PAGE"].read_text(encoding="utf-8")
    assert {found[1] for found in compare["BLOCK"].findall(text)} == set(compare["DATASETS"])
    filled = compare["fill"](text, compare["read"](ROOT / "results" / "comparison.csv"))
    assert filled == text, "run `make docs`"


def test_every_captioner_takes_the_common_settings_on_every_dataset(compare: dict[str, Any], tmp_path: Path) -> None:
    assert {system for data in compare["DATASETS"].values() for system in data.systems} == set(names("*")) - {
        "ensemble"
    }
    for data in compare["DATASETS"].values():
        assert len(data.settings) == 4
        for system in data.systems:
            own = compare["own_options"](system, data.hidden, data.attention)
            recipe = read_recipe(compare["RECIPE"], (f"model={system}", *own, *data.changes, f"run={tmp_path}"))
            assert recipe.train.patience
            assert recipe.model.options["hidden"] == data.hidden


def test_categories_have_vectors_that_tell_them_apart(compare: dict[str, Any], tmp_path: Path) -> None:
    categories = ("music", "sports/actions", "tv shows")
    write_corpus(Corpus("some", (Video("a", "train", ("a man",), "music"),), categories), tmp_path)
    compare["write_categories"](tmp_path)
    vectors = category_vectors(categories, tmp_path / "category-vectors.npz")
    assert int(torch.linalg.matrix_rank(vectors)) == len(categories)
