"""The list of faults fits the code, and the tool that plants them tells who survived and leaves nothing behind."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .benchmarks.scripts import script
from .conftest import ROOT


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return script("mutants")


@pytest.fixture(scope="module")
def mutants(tool: dict[str, Any]) -> list[Any]:
    return tool["read_list"](tool["LIST"])


def test_every_fault_can_be_planted_and_tried(mutants: list[Any]) -> None:
    assert {mutant.name: why for mutant in mutants if (why := mutant.complaint(ROOT))} == {}


def test_the_list_is_long_and_covers_every_package(mutants: list[Any]) -> None:
    assert len(mutants) >= 100
    packages = {folder.name for folder in (ROOT / "src" / "hoca").iterdir() if (folder / "__init__.py").is_file()}
    assert packages - {"bench"} <= {mutant.area for mutant in mutants}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_planting_changes_one_file_and_takes_it_back(tool: dict[str, Any], mutants: list[Any], tmp_path: Path) -> None:
    for mutant in mutants:
        mutant.source(tmp_path).parent.mkdir(parents=True, exist_ok=True)
        mutant.source(tmp_path).write_bytes(mutant.source(ROOT).read_bytes())
    before = contents(tmp_path)
    for mutant in mutants:
        with suppress(KeyboardInterrupt), tool["planted"](mutant, tmp_path):
            changed = [path for path, content in contents(tmp_path).items() if content != before[path]]
            assert changed == [mutant.source(tmp_path)]
            raise KeyboardInterrupt
    assert contents(tmp_path) == before


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project of one function, which one of its tests looks at."""
    files = {
        "src/hoca/__init__.py": "",
        "src/hoca/calculator.py": "def half(x):\n    return x // 2\n\n\ndef twice(x):\n    return 2 * x\n",
        "tests/test_half.py": "from hoca.calculator import half\n\n\ndef test_half():\n    assert half(8) == 4\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_faults_that_are_seen_or_hang_are_noticed_and_others_survive(tool: dict[str, Any], repository: Path) -> None:
    def fault(name: str, old: str, new: str) -> Any:
        return tool["Mutant"](name, "calculator.py", old, new, ("test_half.py",), "")

    faults = [
        fault("seen", "x // 2", "x // 3"),
        fault("of odd numbers", "x // 2", "-(-x // 2)"),
        fault("of another function", "2 * x", "3 * x"),
    ]
    before = contents(repository)
    rows = {row["name"]: row for row in tool["examine"](repository, faults, jobs=2)}
    assert {name: row["noticed"] for name, row in rows.items()} == {
        **{"seen": "yes", "of odd numbers": "no", "of another function": "no"},
    }
    assert contents(repository) == before
    assert all(mutant.holds(rows, repository) for mutant in faults)
    (repository / "tests" / "test_half.py").write_text("from hoca.calculator import half\n")
    assert not any(mutant.holds(rows, repository) for mutant in faults)
    slow = fault("hangs", "return x // 2", "import time; time.sleep(600)")
    (trial,) = tool["tried"]([(slow.tests, slow, 0.5)], [repository])
    assert trial.noticed
    assert contents(repository).keys() == before.keys()


def test_tests_that_fail_without_a_fault_are_told(tool: dict[str, Any], repository: Path) -> None:
    (repository / "tests" / "test_half.py").write_text("def test_half():\n    assert not 'what it says'\n")
    fault = tool["Mutant"]("any", "calculator.py", "2 * x", "3 * x", ("test_half.py",), "")
    with pytest.raises(SystemExit, match=r"(?s)without a fault, these tests do not pass: test_half.+what it says"):
        list(tool["examine"](repository, [fault]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"file": "gone.py"}, "there is no src/hoca/gone.py"),
        ({"old": "x"}, "`old` occurs 4 times in src/hoca/calculator.py, once is wanted"),
        ({"new": "x //"}, "`new` leaves no Python"),
        ({"tests": ("test_gone.py",)}, "there is no tests/test_gone.py"),
    ],
)
def test_a_fault_that_does_not_fit_is_told(
    tool: dict[str, Any], repository: Path, change: dict[str, Any], complaint: str
) -> None:
    fits = {"name": "any", "file": "calculator.py", "old": "x // 2", "new": "x // 3", "tests": (), "wrong": ""}
    assert tool["Mutant"](**fits).complaint(repository) is None
    assert complaint in tool["Mutant"](**fits | change).complaint(repository)
