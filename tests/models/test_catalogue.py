from __future__ import annotations

import pytest

from hoca.models import create, entry, names
from hoca.models.catalogue import PAPER_VOCABULARY, PAPER_WIDTHS, catalogue
from hoca.text import Vocabulary


def test_every_registered_name_has_a_row() -> None:
    rows = catalogue()
    assert [row.name for row in rows] == names()
    assert all((row.about, row.source) == (entry(row.name).about, entry(row.name).source) for row in rows)
    assert all(row.parameters > 10**6 for row in rows)


def test_every_compared_system_says_how_faithful_it_is() -> None:
    classes = {row.name: row.fidelity for row in catalogue()}
    assert {name for name, fidelity in classes.items() if not fidelity} == {*names("*hoca*"), "ensemble"}
    assert classes["scn"] == "class A"
    assert classes["dense-cap"] == "class A/C, in that style"
    for name, fidelity in classes.items():
        in_style = "in that style" in fidelity
        assert in_style == entry(name).source.startswith("after ") == ("-style" in entry(name).about), name


def test_a_pattern_selects_rows() -> None:
    assert [row.name for row in catalogue("l-*")] == names("l-*")
    assert catalogue("no such*") == []


@pytest.mark.parametrize("name", ["hoca-u", "l-hoca-ubt"])
def test_parameters_are_those_of_the_model_at_the_papers_sizes(name: str) -> None:
    words = Vocabulary([f"w{number}" for number in range(PAPER_VOCABULARY - len(Vocabulary([])))])
    assert len(words) == PAPER_VOCABULARY
    model = create(name, PAPER_WIDTHS, words)
    (row,) = catalogue(name)
    assert row.parameters == sum(parameter.numel() for parameter in model.parameters())
