"""The scripts of benchmarks/, which are no package."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def script(name: str) -> dict[str, Any]:
    """What benchmarks/<name>.py defines, without running it."""
    return runpy.run_path(str(FOLDER / f"{name}.py"))
