"""Work in a process of its own: how long it takes, and how much memory it and all that it starts take together."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from hoca.errors import UserError

EVERY = 0.2  # seconds between looks at the memory


@dataclass(frozen=True)
class Finished:
    said: Any  # the JSON that it printed
    seconds: float  # from its start to its end
    peak_bytes: int  # of it and its descendants, shared pages counted once; 0 where the system does not tell


def run_python(arguments: Sequence[str], environment: dict[str, str] | None = None) -> Finished:
    """Run Python with these arguments; its last line is JSON."""
    begun = time.perf_counter()
    child = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    over, peak = Event(), [0]

    def watch() -> None:
        while not over.wait(EVERY):
            peak[0] = max(peak[0], _tree_bytes(child.pid))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    printed, _ = child.communicate()
    seconds = time.perf_counter() - begun
    over.set()
    watcher.join()
    if child.returncode:
        raise UserError(f"nothing was measured, since a process ended with status {child.returncode}: see above")
    return Finished(json.loads(printed.splitlines()[-1]), seconds, peak[0])


def _tree_bytes(process: int) -> int:
    """Proportional set sizes: a page that n processes share counts one n-th for each of them."""
    total = 0
    with suppress(OSError):  # it may have ended meanwhile
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) * 1024
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            total += _tree_bytes(int(child))
    return total
