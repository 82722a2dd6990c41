"""Every tutorial runs from top to bottom, at a tiny size, in a folder where nothing is prepared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT
from ..training.tiny import ENVIRONMENT

NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
FEW = {"train": 6, "validation": 2, "test": 3}
UNARY, BOTH = "../compare-models/runs/hoca-u-0", "../compare-models/runs/l-hoca-ubt-0"
TINY: dict[str, dict[str, Any]] = {  # in this order: the first trains models whose features take no time
    "compare-models": {"sizes": FEW, "epochs": 1, "seeds": [0]},
    "caption-a-folder": {"clips": 1, "seconds": 1, "model": BOTH},
    "explain-a-caption": {"seconds": 1, "model": BOTH, "other": UNARY},
    "fine-tune": {"sizes": {"train": 2, "validation": 0, "test": 2, "seconds": 1}, "epochs": 1, "init_from": BOTH},
    "your-own-features": {"clips": 20, "epochs": 1},
    "a-new-attention": {"sizes": FEW, "epochs": 1, "hidden": 8},
}
SAYS = {  # something that only a run to the end prints
    "caption-a-folder": "skipped: ",
    "explain-a-caption": "even: 0.050",
    "fine-tune": "CIDEr",
    "your-own-features": "audio",
    "a-new-attention": "test-00000 |",
    "compare-models": "95 % interval",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All of them in one process, since most of the time goes into importing torch."""
    asked = {str(ROOT / "docs" / "tutorials" / f"{name}.ipynb"): values for name, values in TINY.items()}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run_notebooks.py")), json.dumps(asked)],
        cwd=tmp_path_factory.mktemp("tutorials"),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return {Path(path).stem: result for path, result in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(notebook: Path, results: dict[str, dict[str, Any]]) -> None:
    result = results[notebook.stem]
    assert result["error"] is None, result["error"]
    assert SAYS[notebook.stem] in result["printed"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert cells[0]["source"][0].startswith("# "), "a page starts with its title"
