"""What can be run of the Dockerfile without a Docker engine, which the machines that test this project lack.

The sources that it copies are copied to a folder. There its `pip wheel` line runs as it is, its `pip install` lines
resolve offline against the installed packages (`--dry-run --no-index`), and the entry point runs from the wheel. Not
shown: that the base image, `apt-get` and `useradd` do what we expect, and that a GPU works inside of a container.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import ROOT

TEXT = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
LINES = [
    tuple(line.split(" ", 1)) for line in TEXT.splitlines() if line.strip() and not line.startswith("#")
]  # (instruction, arguments)
RUNS = [arguments for instruction, arguments in LINES if instruction == "RUN"]


class Image:
    """A folder that stands in for the file system of the image."""

    def __init__(self, root: Path) -> None:
        self.root, self.source, self.wheels = root, root / "source", root / "wheels"
        self.source.mkdir()
        self.wheels.mkdir()
        for instruction, arguments in LINES:
            if instruction == "COPY" and not arguments.startswith("--from"):
                *names, _ = arguments.split()
                for name in names:
                    self.copy(ROOT / name)
        shutil.copy(ROOT / "constraints.txt", self.wheels)

    def copy(self, path: Path) -> None:
        if path.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
            shutil.copytree(path, self.source / path.name, ignore=unwanted, dirs_exist_ok=True)
        else:
            shutil.copy(path, self.source)

    def run(self, command: str, **environment: str) -> str:
        """A RUN line in a shell, `pip` being that of the tests and /wheels a folder of the stand-in."""
        arguments = {"EXTRAS": "web,h5", "TORCH_INDEX": ""} | environment
        pip = f"{sys.executable} -m pip --disable-pip-version-check"
        command = command.replace("/wheels", str(self.wheels))
        command = re.sub(r"^pip install", f"{pip} install --dry-run --no-index", command)
        command = re.sub(r"^pip wheel", f"{pip} wheel --no-index", command)
        done = subprocess.run(
            ["sh", "-ec", command], cwd=self.source, env=os.environ | arguments, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image"))


def test_there_are_two_kinds_of_image_and_the_last_one_is_for_a_cpu() -> None:
    stages = [re.fullmatch(r"(\S+) AS (\w+)", arguments) for instruction, arguments in LINES if instruction == "FROM"]
    assert [stage[2] for stage in stages if stage] == ["wheel", "base", "cuda", "cpu"]
    assert all(stage and stage[1] in ("python:${PYTHON}-slim", "base") for stage in stages)


def test_what_it_copies_exists_and_is_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for instruction, arguments in LINES:
        if instruction == "COPY" and not arguments.startswith("--from"):
            for name in arguments.split()[:-1]:
                assert (ROOT / name).exists()
                assert name in kept


def test_pip_lines_build_and_resolve_and_the_entry_point_runs(image: Image) -> None:
    pip_lines = [line for line in RUNS if line.startswith("pip")]
    assert len(pip_lines) == 5
    for line in pip_lines:
        said = image.run(line)
        if "hoca-*.whl" in line:
            assert re.findall(r"Would install (.*)", said) in ([], ["hoca-0.1.0"])  # all it needs is pinned and here
    (wheel,) = image.wheels.glob("hoca-*.whl")
    installed = image.root / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(installed), str(wheel)], check=True, capture_output=True)
    entry, default = (json.loads(a) for i, a in LINES if i in ("ENTRYPOINT", "CMD"))
    done = subprocess.run(
        [str(installed / "bin" / entry[0]), *entry[1:], *default],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=image.root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "caption" in done.stdout


def test_the_page_names_every_build_argument_with_its_default() -> None:
    page = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([A-Z_]+)` \| (?:`(.*?)`|empty) \|", page, re.MULTILINE)
    assert sorted(named) == sorted(tuple(arguments.split("=")) for name, arguments in LINES if name == "ARG")


def test_other_lines_are_shell() -> None:
    others = [line for line in RUNS if not line.startswith("pip")]
    assert others
    for line in others:
        assert subprocess.run(["sh", "-n", "-c", line], capture_output=True).returncode == 0, line


def test_an_index_for_torch_is_handed_to_pip(image: Image) -> None:
    (line,) = (line for line in RUNS if line.endswith(" torch"))
    echoed = "echo " + line.replace("--no-cache-dir ", "")
    assert "--index-url somewhere" in image.run(echoed, TORCH_INDEX="somewhere")
    assert "--index-url" not in image.run(echoed)
