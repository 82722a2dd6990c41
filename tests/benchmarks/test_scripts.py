"""Every script of benchmarks/ still finds what it imports, those too that need a GPU or hours to run."""

from __future__ import annotations

import os
import subprocess
import sys

from .scripts import FOLDER

LOAD = """
import runpy, sys
for path in sys.argv[1:]:
    print(path, flush=True)
    runpy.run_path(path)  # not as __main__
"""


def test_every_script_is_loaded() -> None:
    scripts = sorted(map(str, FOLDER.glob("*.py")))
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]  # they import one another
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", LOAD, *scripts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == scripts
