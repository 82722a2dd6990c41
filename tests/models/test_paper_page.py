"""docs/paper.md is complete and names only what exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from hoca.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "paper.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
FOLDERS = ("benchmarks", "docs", "results", "src")


def first_cell(row: str) -> str:
    return row.split("|")[1].strip()


CONTENT = [row for row in ROWS if first_cell(row) not in ("eq.", "in the paper")]  # without the tables' heads


def test_every_equation_of_the_paper_has_its_row() -> None:
    cells = map(first_cell, ROWS)
    numbers = [int(number) for cell in cells if re.fullmatch(r"[\d, ]+", cell) for number in cell.split(",")]
    assert numbers == list(range(1, 25))


def test_tables_figures_and_propositions_have_theirs() -> None:
    cells = {first_cell(row).split(" (")[0] for row in ROWS}
    wanted = {*(f"Table {n}" for n in range(1, 4)), *(f"Figure {n}" for n in range(1, 8))}
    assert wanted | {"Proposition 1", "Proposition 2"} <= cells


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((\.\./[^)]+)\)", PAGE.read_text(encoding="utf-8")))))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).resolve().is_file()


@pytest.mark.parametrize("row", [row for row in ROWS if "../src/" in row], ids=first_cell)
def test_names_are_in_the_files_beside_them(row: str) -> None:
    sources = "".join(
        (PAGE.parent / link).read_text(encoding="utf-8") for link in re.findall(r"\]\((\.\./src[^)]+)\)", row)
    )
    for name in re.findall(r"`(\w+)`", row):
        assert re.search(rf"^(class|def) {name}\b", sources, re.MULTILINE), name


@pytest.mark.parametrize("row", CONTENT, ids=first_cell)
def test_a_row_names_a_file_a_command_or_what_is_not_here(row: str) -> None:
    assert re.search(r"\]\(|`hoca |not here yet: `", row.split("|")[3])


@pytest.mark.parametrize("words", sorted(set(re.findall(r"`hoca ([^`]+)`", PAGE.read_text(encoding="utf-8")))))
def test_commands_can_be_typed(words: str) -> None:
    name, *arguments = shlex.split(words)
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_context(name, arguments)  # parses and runs nothing


@pytest.mark.parametrize("row", CONTENT, ids=first_cell)
def test_what_a_row_says_is_not_here_is_not_here(row: str) -> None:
    told = re.findall(r"not here yet: ((?:`[\w./-]+`(?:, )?)+)", row)
    assert len(told) == len(re.findall(r"\byet\b|\bmissing\b|\bnot here\b(?! yet)", row)), "say `not here yet: PATH`"
    for path in re.findall(r"`([^`]+)`", " ".join(told)):
        assert (ROOT / path).parent.is_dir(), f"{path} is a place that nothing could have"
        found = [each for folder in FOLDERS for each in (ROOT / folder).rglob(Path(path).name)]
        assert found == [], f"the page says that {path} is not here yet"


def test_lines_that_implement_an_equation_carry_its_number() -> None:
    derivation = {4, 10, 12, 13}
    folders = (ROOT / "src" / "hoca" / part for part in ("ops", "models", "training"))
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    found: set[int] = set()
    for first, last, more in re.findall(r"eq\. (\d+)(?:-(\d+))?((?:(?:,| and) \d+(?:-\d+)?)*)", sources):
        found |= set(range(int(first), int(last or first) + 1))
        for begin, end in re.findall(r"(\d+)(?:-(\d+))?", more):
            found |= set(range(int(begin), int(end or begin) + 1))
    assert found >= set(range(1, 25)) - derivation
