"""hoca as a Python package: what it shows of itself, and docs/python.md, run as it is written at a tiny size."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hoca
from hoca.errors import UserError

from .conftest import ROOT

PAGE = ROOT / "docs" / "python.md"
SIZES = {  # what makes the tutorial quick
    "train=600, validation=50, test=50, seconds=2.0": (
        "train=6, validation=2, test=2, seconds=1.0, fps=8, picture=32, silent=0"
    ),
    "epochs=8": "epochs=1, batch_size=4, hidden=8, attention=8, embedding=8",
    "hidden=128, attention=64": "hidden=16, attention=8, dropout=0.0",
    "lr=2e-3": "lr=2e-2",
}


def test_the_public_names_are_shown_and_the_others_are_not() -> None:
    shown = [name for name in dir(hoca) if not name.startswith("__")]
    assert {"Caption", "VideoCaptioner", "load", "train", "models", "metrics", "errors"} <= set(shown)
    assert not [name for name in shown if name.startswith("_")]
    for name in shown:
        assert getattr(hoca, name) is not None
    text = pydoc.plain(pydoc.render_doc(hoca))
    assert re.search(r"^ +class Caption\(", text, re.MULTILINE)
    assert re.search(r"^ +load\(.*\) ?-> ", text, re.MULTILINE)
    assert re.search(r"^ +train\(", text, re.MULTILINE)


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, hoca; dir(hoca); print([n for n in ('torch', 'numpy', 'yaml', 'rich') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that docs/python.md has defined at its end."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    for size, small in SIZES.items():
        assert size in code
        code = code.replace(size, small)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("tutorial")
        patch.chdir(folder)
        exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_the_tutorial_trains_captions_and_scores(tutorial: dict[str, Any]) -> None:
    losses = tutorial["losses"]
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])
    assert set(tutorial["scores"].per_video) == {"test-00000", "test-00001"}
    assert tutorial["caption"].video.endswith("test-00000.mp4")


def test_train_takes_keys_of_the_recipe_alone(tutorial: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the arguments of train: there is no key 'epoch'"):
        hoca.train("binding", epoch=1)
    with pytest.raises(UserError, match="epochs: a Recipe has its values already"):
        hoca.train(hoca.training.Recipe(), epochs=1)
