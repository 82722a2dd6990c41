"""docs/paper.md is complete and names only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "paper.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]


def test_every_equation_of_the_paper_has_its_row() -> None:
    cells = (row.split("|")[1].strip() for row in ROWS)
    numbers = [int(number) for cell in cells if re.fullmatch(r"[\d, ]+", cell) for number in cell.split(",")]
    assert numbers == list(range(1, 25))


def test_tables_figures_and_propositions_have_theirs() -> None:
    cells = {row.split("|")[1].strip().split(" (")[0] for row in ROWS}
    wanted = {*(f"Table {n}" for n in range(1, 4)), *(f"Figure {n}" for n in range(1, 8))}
    assert wanted | {"Proposition 1", "Proposition 2"} <= cells


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((\.\./[^)]+)\)", PAGE.read_text(encoding="utf-8")))))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).resolve().is_file()


@pytest.mark.parametrize("row", [row for row in ROWS if "../src/" in row], ids=lambda row: row.split("|")[1].strip())
def test_names_are_in_the_files_beside_them(row: str) -> None:
    sources = "".join(
        (PAGE.parent / link).read_text(encoding="utf-8") for link in re.findall(r"\]\((\.\./src[^)]+)\)", row)
    )
    for name in re.findall(r"`(\w+)`", row):
        assert re.search(rf"^(class|def) {name}\b", sources, re.MULTILINE), name


def test_lines_that_implement_an_equation_carry_its_number() -> None:
    derivation = {4, 10, 12, 13}
    folders = (ROOT / "src" / "hoca" / part for part in ("ops", "models", "training"))
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py"))
    found: set[int] = set()
    for first, last, more in re.findall(r"eq\. (\d+)(?:-(\d+))?((?:(?:,| and) \d+(?:-\d+)?)*)", sources):
        found |= set(range(int(first), int(last or first) + 1))
        for begin, end in re.findall(r"(\d+)(?:-(\d+))?", more):
            found |= set(range(int(begin), int(end or begin) + 1))
    assert found >= set(range(1, 25)) - derivation
