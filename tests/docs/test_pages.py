"""What the pages tell people to type can be typed, and the questions have answers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer import Exit
from typer.main import get_command

from hoca.cli import ClickException, app

from ..conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FAQ = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SYNOPSIS = re.compile(r"[\[\]…<>|]|\bCOMMAND\b|\bWHAT\b")  # of a command with parts to be chosen


def commands(text: str) -> list[str]:
    """Commands of hoca in code spans and in lines of code."""
    lines = [line for _, code in FENCE.findall(text) for line in code.replace("\\\n", " ").splitlines()]
    spans = [" ".join(span.split()) for span in re.findall(r"`(hoca [^`]+)`", FENCE.sub("", text))]
    found = [line.partition(" > ")[0] for line in [*lines, *spans] if line.startswith("hoca ")]
    return [command for command in found if not SYNOPSIS.search(command)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_typed(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        _, *words = shlex.split(line, comments=True)
        command, path = get_command(app), "hoca"
        while words and words[0] in getattr(command, "commands", {}):
            path = f"{path} {words[0]}"
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
        if hasattr(command, "commands"):  # only named, with an option such as --version, which would run
            assert not words or words[0].startswith("-"), f"there is no {line!r}"
            continue
        try:
            command.make_context(path, words)  # parses and runs nothing
        except Exit:  # of --help
            pass
        except ClickException as error:  # a sentence may name a command and one option of it
            if not re.search("Missing|requires an argument", error.format_message()):  # type: ignore[attr-defined]
                raise


def test_the_questions_are_answered_with_a_page_or_a_command() -> None:
    questions = re.split(r"^## ", FAQ, flags=re.MULTILINE)[1:]
    assert len(questions) >= 15
    for question in questions:
        assert re.search(r"\]\([\w/-]+\.(md|ipynb)|`(hoca|make|pip) ", question), question.splitlines()[0]


def test_keys_that_answers_name_exist() -> None:
    recipes = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"(?<![\w-])(\w+)=", " ".join(re.findall(r"`([^`]+)`", FAQ))))
    assert {"min_count", "no_repeat", "length_penalty", "checkpoint_every"} <= keys
    assert {key for key in keys if f"| `{key}` |" not in recipes} <= {
        "image",
        "audio",
        "OMP_NUM_THREADS",
        "data",
        "memory",
    }
