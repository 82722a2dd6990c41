"""Recipes come with the package and are found by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca import recipes
from hoca.errors import UnknownName, UserError
from hoca.training import read_recipe

from .conftest import ROOT, Command


def test_every_recipe_is_listed_with_what_it_is_for(hoca: Command) -> None:
    rows = dict(line.split("  ", 1) for line in hoca("recipes", "list").out.splitlines())
    assert {name.strip() for name in rows} == {path.stem for path in (ROOT / "src" / "hoca" / "recipes").glob("*.yaml")}
    assert all(len(about.strip()) > 20 and "\n" not in about for about in rows.values())


def test_one_is_shown_and_copied_to_be_changed(hoca: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "src" / "hoca" / "recipes" / "finetune.yaml").read_text(encoding="utf-8")
    assert hoca("recipes", "show", "finetune").out == text
    assert hoca("recipes", "copy", "finetune").code == 0
    assert Path("finetune.yaml").read_text(encoding="utf-8") == text
    again = hoca("recipes", "copy", "finetune")
    assert (again.code, "finetune.yaml is there already" in again.complaint) == (2, True)
    assert hoca("recipes", "copy", "finetune", "--out", "mine.yaml").code == 0
    assert read_recipe("mine.yaml") == read_recipe("finetune")


def test_a_name_means_the_shipped_one_and_a_path_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipes.find("binding") == recipes.FOLDER / "binding.yaml"
    Path("binding").mkdir()  # a run or a dataset may be called the same
    assert recipes.find("binding") == recipes.FOLDER / "binding.yaml"
    assert recipes.find("mine/binding.yml") == Path("mine/binding.yml")
    with pytest.raises(UnknownName, match=r"there is no recipe 'fintune', nor .*: did you mean 'finetune'"):
        read_recipe("fintune")
    with pytest.raises(UserError, match="the recipe that comes with hoca is named finetune"):
        read_recipe("recipes/finetune.yaml")


def test_keys_are_changed_by_arguments_or_values() -> None:
    assert read_recipe("binding", ["epochs=3", "model.hidden=16"]) == read_recipe(
        "binding", {"epochs": 3, "model.hidden": 16}
    )
    with pytest.raises(UserError, match="the arguments of train: there is no key 'epoch': did you mean 'epochs'"):
        read_recipe("binding", {"epoch": 3})
