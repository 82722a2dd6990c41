"""The scripts of benchmarks/, which are no package."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def script(name: str) -> dict[str, Any]:
    """What benchmarks/<name>.py defines, without running it."""
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def start(name: str, *arguments: object) -> str:
    """Run benchmarks/<name>.py as its page says; returns what it printed."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
