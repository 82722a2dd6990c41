"""What is published works where the repository is not: wheel and source archive, each in an environment of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import numpy as np
import pytest
import setuptools

from hoca import VideoCaptioner, assets, models, recipes
from hoca.data import Vocabulary
from hoca.features import BACKBONES, light_specification
from hoca.generation import Search
from hoca.media import write

from .conftest import ROOT

HOME = "https://example.org/hoca"
BUILD = "from setuptools import build_meta; build_meta.build_sdist('dist'); build_meta.build_wheel('dist')"
KINDS = {"wheel": "--only-binary", "source": "--no-binary"}
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command that knows nothing of this environment and reaches no index."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV"))}
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=own | offline | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both archives, built of a copy, so that nothing is left in the repository."""
    copy = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT / "src", copy / "src", ignore=LEFT_OUT)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-c", BUILD, cwd=copy, HOCA_REPOSITORY=HOME)
    return copy / "dist"


def installed(kind: str, wheelhouse: Path, folder: Path) -> Path:
    """An environment that was empty, with hoca in it; the programs are in its folder bin."""
    tools = folder / "tools"  # setuptools alone, to build with
    tools.mkdir()
    built_by = Path(setuptools.__file__).parent
    for part in (built_by, *built_by.parent.glob("setuptools-*.dist-info"), built_by.parent / "_distutils_hack"):
        (tools / part.name).symlink_to(part)
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install")
    source = (
        "--no-deps",
        "--no-compile",
        "--no-build-isolation",
        "--find-links",
        wheelhouse,
        KINDS[kind],
        "hoca",
        "hoca",
    )
    run(*pip, *source, cwd=folder, PYTHONPATH=str(tools))
    # What hoca depends on is taken from here: files on the path, without the .pth files that make this hoca visible.
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("-packages")))
    return folder / "env"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    frames = np.random.default_rng(0).integers(0, 255, (8, 64, 64, 3), dtype=np.uint8)
    write(path, frames, 8)
    return path


def metadata(environment: Path) -> Message:
    (file,) = environment.glob("lib/python*/site-packages/hoca-*.dist-info/METADATA")
    return HeaderParser().parsestr(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of features that need no weights: seconds less than the shipped one."""
    specification = light_specification(motion=0, audio=0)
    model = models.create("hoca-u", {"image": BACKBONES["light-image"].width}, Vocabulary(["dog", "runs"]), hidden=8)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    VideoCaptioner(model, specification, Search(beam=2, max_length=4)).save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_installed_hoca_captions_a_clip(
    kind: str, wheelhouse: Path, clip: Path, untrained: Path, tmp_path: Path
) -> None:
    environment = installed(kind, wheelhouse, tmp_path)
    place = run(environment / "bin" / "python", "-c", "import hoca; print(hoca.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(environment)
    if kind == "wheel":
        assets.pull("dinov2-small")  # what a user has cached after the first caption
        model = "default"
    else:
        model = str(untrained)
    said = run(environment / "bin" / "hoca", "caption", clip, "--model", model, cwd=tmp_path)
    assert len(said.splitlines()) == 1
    listed = run(environment / "bin" / "hoca", "recipes", "list", cwd=tmp_path)
    assert [line.split()[0] for line in listed.splitlines()] == recipes.names()
    facts = metadata(environment)
    assert {"Author", "Keywords", "Classifier", "Project-URL", "License-Expression"} <= set(facts)
    assert f"Repository, {HOME}" in facts.get_all("Project-URL", [])
    links = re.findall(r"\]\(([^)#][^)]*)\)", str(facts.get_payload()))
    assert f"{HOME}/raw/HEAD/docs/report.png" in links
    assert all(link.startswith("https://") for link in links)
