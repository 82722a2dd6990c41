"""Who imports whom is what docs/architecture.md draws: no arrow more, none less, no circle."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hoca"
GROUND = {"errors", "files", "tables", "options", "progress", "devices", "threads", "isolated", "garbage"}
PACKAGES = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
PACKAGES |= {path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")}
Arrows = set[tuple[str, str]]


def drawn() -> Arrows:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (graph,) = re.findall(r"```mermaid\n(.*?)```", page, re.DOTALL)
    return set(re.findall(r"^  (\w+) --> (\w+)$", graph, re.MULTILINE))


def named(node: ast.AST) -> list[str]:
    """The modules that a piece of code names: imports wherever they stand, and texts that may be imported."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"hoca\.\w+", node.value):
        return [node.value]
    return []


def imported(folder: Path = SOURCE) -> Arrows:
    arrows = set()
    for file in folder.rglob("*.py"):
        place = file.relative_to(folder)
        package = place.parts[0] if len(place.parts) > 1 else place.stem
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for name in named(node):
                parts = re.split(r"\W", name)
                if parts[0] == "hoca" and len(parts) > 1 and parts[1] in PACKAGES and parts[1] != package:
                    arrows.add((package, parts[1]))
    return {(a, b) for a, b in arrows if not a.startswith("__")}


def test_packages_import_what_the_page_draws_and_nothing_else() -> None:
    found = {(a, b) for a, b in imported() if b not in GROUND}
    assert found - drawn() == set(), "imports that docs/architecture.md does not draw"
    assert drawn() - found == set(), "arrows of docs/architecture.md that nothing needs any more"


def test_the_ground_knows_no_other_part() -> None:
    assert {(a, b) for a, b in imported() if a in GROUND and b not in GROUND} == set()


def test_there_are_no_circles() -> None:
    graph: dict[str, set[str]] = {}
    for above, below in imported():
        graph.setdefault(above, set()).add(below)
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_every_package_is_explained() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(\w+)`", page))
    assert PACKAGES - explained == {"distributed"} - explained


def test_lazy_and_dynamic_imports_are_seen(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "late.py").write_text(
        "import importlib\n"
        "def late(name):\n"
        "    from hoca.models import create\n"
        "    return importlib.import_module(f'hoca.training.{name}')\n"
    )
    assert imported(tmp_path) == {("ops", "models"), ("ops", "training")}
