"""The keys of a recipe are documented where users look, and nowhere by hand."""

from __future__ import annotations

import runpy
from pathlib import Path

from hoca.training.keys import as_text, keys, model_keys
from hoca.training.recipe import SECTIONS

from .tiny import finish, start

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_recipes_is_what_the_code_says() -> None:
    page = runpy.run_path(str(ROOT / "benchmarks" / "recipes_page.py"))["page"]
    assert (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8") == page()


def test_the_help_of_train_lists_every_key() -> None:
    code, out, _ = finish(start("train", "--help"))
    assert code == 0
    for listed in [*keys().values(), *model_keys().values()]:
        for key in listed:
            assert f"    {key.name}=" in out
    assert set(SECTIONS) == {"model", "data", "train", "search"} <= set(keys())


def test_every_key_says_what_it_means() -> None:
    assert all(key.about for listed in [*keys().values(), *model_keys().values()] for key in listed)
    assert "objective=xe" in as_text()
