"""The pages on speed say what results/ says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict:
    return runpy.run_path(str(ROOT / "benchmarks" / "speed_pages.py"))


@pytest.mark.parametrize("name", ["speed.md", "scaling.md", "kernels.md"])
def test_the_tables_are_those_of_the_results(script: dict, name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert script["BLOCK"].search(text)
    assert script["fill"](text) == text, f"run `python benchmarks/speed_pages.py`: {name} is older than results/"


def test_what_was_not_measured_says_so(script: dict) -> None:
    assert script["markdown"]([], {"ms": str}) == "Not measured yet.\n"


def test_the_plot_is_drawn(script: dict, tmp_path: Path) -> None:
    script["draw"](tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
