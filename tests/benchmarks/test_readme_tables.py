"""The README's tables say what results/ says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict:
    return runpy.run_path(str(ROOT / "benchmarks" / "readme_tables.py"))


def test_the_tables_are_those_of_the_results(script: dict) -> None:
    for page in filter(Path.is_file, script["PAGES"]):
        text = page.read_text(encoding="utf-8")
        assert script["BLOCK"].search(text), f"{page} has no table from results/"
        assert script["fill"](text, ROOT) == text, f"run `make docs`: a table in {page} is older than results/"


def test_a_table_follows_its_file(script: dict, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.csv").write_text(
        "variant,seeds,CIDEr,CIDEr sd,colour,colour sd\nhoca-u,3,210.04,1.26,55.5,2\nhoca-u rank 2,3,1,1,1,1\n"
    )
    text = "before\n<!-- from results/x.csv -->\nold\n<!-- end -->\nafter\n"
    filled = script["fill"](text, tmp_path)
    assert (
        "| model | CIDEr | colour |\n| --- | --- | --- |\n| `hoca-u` | 210.0 ± 1.3 | 55.5 ± 2.0 |\n<!-- end" in filled
    )
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert script["fill"](filled, tmp_path) == filled
    assert "rank 2" not in filled
    assert "| `hoca-u rank 2` | 1.0 ± 1.0 | 1.0 ± 1.0 |" in script["fill"](text.replace("from", "all of"), tmp_path)


def test_results_that_are_not_there_are_said_to_be_missing(script: dict, tmp_path: Path) -> None:
    text = "<!-- from results/x.csv -->\nold\n<!-- end -->\n"
    assert "Not measured yet." in script["fill"](text, tmp_path)


def test_a_figure_is_shown_once_it_is_drawn(script: dict, tmp_path: Path) -> None:
    text = "<!-- figure docs/x.png: CIDEr by rank -->\nold\n<!-- end -->\n"
    assert "Not measured yet." in script["fill"](text, tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x.png").touch()
    assert "-->\n![CIDEr by rank](x.png)\n<!-- end" in script["fill"](text, tmp_path)


def test_intervals_and_plain_rows_are_shown_too(script: dict, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.csv").write_text("variant,CIDEr,CIDEr ci,METEOR\nhoca-u,210.04,1.26,\n")
    text = "<!-- from results/x.csv -->\n<!-- end -->\n"
    assert "| `hoca-u` |  | 210.0 ± 1.3 |\n" in script["fill"](text, tmp_path)
    plain = script["fill"](text.replace("from", "rows of"), tmp_path)
    assert "| variant | CIDEr | CIDEr ci | METEOR |\n" in plain
    assert "| hoca-u | 210.04 | 1.26 |  |\n" in plain
    facts = script["fill"](text.replace("from", "facts of"), tmp_path)
    assert "| what | measured |\n| --- | --- |\n| variant | hoca-u |\n| CIDEr | 210.04 |\n" in facts
