"""The help pages, the version, shell completion, and hints for what was nearly right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hoca as package
from hoca.cli.common import app
from hoca.cli.measure import BENCHMARKS

from .conftest import Command

LEAVES = [
    *("caption", "explain", "serve", "train", "evaluate", "score", "models", "extract", "data prepare"),
    *("recipes list", "recipes show", "recipes copy"),
    *("data import-features", "data export-features", "assets list", "assets pull", "assets verify"),
    *("plot curves", "plot rank", "plot cost", *(f"bench {name}" for name in BENCHMARKS)),
]
NO_TORCH = [leaf for leaf in LEAVES if not leaf.startswith(("train", "bench"))]  # these import what knows their keys


def test_bare_hoca_prints_its_help_as_a_page(hoca: Command) -> None:
    bare, asked = hoca(), hoca("--help")
    assert (bare.code, bare.err) == (0, "")
    assert bare.out == asked.out == hoca("-h").out
    headings = re.findall(r"^(\w+):$", bare.out, re.MULTILINE)
    assert headings == ["Options", "Videos", "Models", "Data", "Measurements"]
    assert re.search(
        r"^Videos:\n  caption +Say what happens in each video, or in each segment of a long one\.$",
        bare.out,
        re.MULTILINE,
    )
    assert "..." not in bare.out.replace("[ARGS]...", "")  # no sentence is cut off
    assert "\x1b" not in bare.out


@pytest.mark.parametrize("group", ["data", "assets", "bench", "plot"])
def test_a_bare_group_prints_its_help(hoca: Command, group: str) -> None:
    result = hoca(group)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: hoca {group} [OPTIONS] COMMAND")


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_command_shows_examples_and_readable_arguments(hoca: Command, leaf: str) -> None:
    result = hoca(*leaf.split(), "-h")
    assert result.code == 0
    usage = result.out.splitlines()[0]
    assert re.fullmatch(rf"Usage: hoca {leaf} \[OPTIONS\]( \[?[A-Z=]+\]?(\.\.\.)?)*", usage), usage
    assert len(re.findall(rf"^  hoca {leaf}\b", result.out, re.MULTILINE)) >= 2
    assert not re.search(r"<(str|int|float|path|list)\b", result.out)


def test_no_help_page_loads_torch_unless_it_lists_keys() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from hoca.cli.common import app\nimport hoca.cli\n"
        f"for leaf in {['', *NO_TORCH]!r}:\n"
        "    app([*leaf.split(), '--help'], prog_name='hoca', standalone_mode=False)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_version(hoca: Command) -> None:
    assert hoca("--version").out == f"hoca {package.__version__}\n"


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> str:
        number = str(len(words.split()))
        asked = {"_HOCA_COMPLETE": "complete_bash", "COMP_WORDS": f"hoca {words}", "COMP_CWORD": number}
        done = subprocess.run([sys.executable, "-m", "hoca"], env=os.environ | asked, capture_output=True, text=True)
        return done.stdout

    assert completed("ca").split() == ["caption"]
    assert completed("bench thr").split() == ["threads"]
    assert "--length-penalty" in completed("evaluate --l")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["train", "recipe.yaml", "--epochs", "2"], "there is no option --epochs: epochs is a key, write epochs=2"),
        (["train", "recipe.yaml", "--batch-size=4"], "batch_size is a key, write batch_size=4"),
        (["train", "--epochs"], "write epochs=VALUE"),
        (["bench", "metrics", "--videos", "5"], "videos is a key, write videos=5"),
        (["train", "recipe.yaml", "--nosuch"], "No such option: --nosuch"),
    ],
)
def test_a_key_that_is_written_as_an_option_gets_a_hint(hoca: Command, arguments: list[str], hint: str) -> None:
    result = hoca(*arguments)
    assert (result.code, result.out) == (2, "")
    assert hint in result.complaint
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_lists_its_keys(hoca: Command, name: str) -> None:
    from importlib import import_module

    from hoca.options import about

    shown = hoca("bench", name, "--help").out.partition("Keys, with their defaults:\n")[2].splitlines()
    known = about(import_module(f"hoca.bench.{name}").Options)
    assert [line.split("=")[0].strip() for line in shown] == list(known)
    assert all(meaning in line for line, meaning in zip(shown, known.values(), strict=True))
    assert len(known) == len(import_module(f"hoca.bench.{name}").Options.__dataclass_fields__)


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name in ("attention", "train", "generate", "metrics")])
def test_one_call_is_refused_before_anything_is_measured(hoca: Command, name: str, tmp_path: Path) -> None:
    result = hoca("bench", name, "calls=1", "--out", tmp_path / "table.csv")
    assert (result.code, result.err) == (2, "hoca: calls=1 must be at least 2\n")


@pytest.mark.parametrize("what", ["curves", "rank", "cost"])
def test_a_plot_without_results_says_so(
    hoca: Command, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = hoca("plot", what, *(["run"] if what == "curves" else []), "--out", "figure.png")
    assert result.code == 2
    assert result.complaint.startswith("hoca: no results: there is no ")
    assert len(result.err.splitlines()) == 1
    assert not (tmp_path / "figure.png").exists()


def test_all_commands_are_in_the_list_of_this_test() -> None:
    import typer

    command = typer.main.get_command(app)
    found = []
    for name, each in command.commands.items():
        found += [f"{name} {inner}" for inner in each.commands] if hasattr(each, "commands") else [name]
    assert set(LEAVES) | {"caption"} <= set(found)
