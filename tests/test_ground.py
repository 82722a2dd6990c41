"""The rules that hold for the repository as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "hoca").rglob("*.py"))


def tracked_files() -> list[Path]:
    try:
        found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in found.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_is_large_but_the_shipped_models_and_what_many_runs_said() -> None:
    shipped = ROOT / "src" / "hoca" / "shipped"
    limits = {shipped / "default.safetensors": 24_000_000, shipped / "hoca-u.safetensors": 8_000_000}
    limits[ROOT / "results" / "mixed-runs.captions.jsonl.gz"] = 4_000_000
    assert [path for path in tracked_files() if path.stat().st_size > limits.get(path, 3_000_000)] == []


def test_no_text_names_a_place_on_somebodys_machine() -> None:
    places = re.compile(rb"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/")
    here = Path(__file__).resolve()
    naming = [path for path in tracked_files() if path.resolve() != here and places.search(path.read_bytes())]
    assert [path for path in naming if b"\0" not in path.read_bytes()] == []


HASHED = ROOT / "constraints-hashed.txt"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in wanted}
    assert names <= {normal(name) for name in pins}
    assert pins["torch"] == "2.13.0"


def test_the_hashed_pins_are_the_same_pins() -> None:
    pins = re.findall(r"^[^#\s]\S*==\S+", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    blocks = re.findall(
        r"^([^#\s]\S*==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", HASHED.read_text(), re.MULTILINE
    )
    assert [name for name, _ in blocks] == pins, "run: python benchmarks/hash_constraints.py"


def test_help_lists_the_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "hoca", "--help"], capture_output=True, text=True, check=True)
    for command in ("caption", "explain", "train", "evaluate", "models", "data"):
        assert re.search(rf"^\W*{command}\b", done.stdout, re.MULTILINE), command


def test_training_needs_neither_codecs_nor_plots() -> None:
    code = (
        "import sys\n"
        "for name in ('av', 'unearth', 'matplotlib', 'h5py', 'tensorboard'): sys.modules[name] = None\n"
        "import hoca, hoca.training, hoca.training.report, hoca.models, hoca.generation, hoca.metrics, hoca.data\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_metrics_need_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import hoca.metrics"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_imports_are_absolute() -> None:
    for source in SOURCES:
        relative = [n for n in ast.walk(ast.parse(source.read_text())) if isinstance(n, ast.ImportFrom) and n.level]
        assert relative == [], source


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111, ".ci/run is not executable"
    assert re.search(r"^make test\b", script.read_text(encoding="utf-8"), re.MULTILINE)


def test_an_old_python_is_told_so_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "-s", "-C", str(ROOT), f"PYTHON={old}", f"VENV={tmp_path}/venv", "install"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "hoca needs Python 3.11 or newer" in done.stdout
    assert not (tmp_path / "venv").exists()
