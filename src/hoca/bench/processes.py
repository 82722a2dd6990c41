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
            peak[0] = max(peak[0], tree_bytes(child.pid))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    printed, _ = child.communicate()
    seconds = time.perf_counter() - begun
    over.set()
    watcher.join()
    if child.returncode:
        raise UserError(f"nothing was measured, since a process ended with status {child.returncode}: see above")
    return Finished(json.loads(printed.splitlines()[-1]), seconds, peak[0])


def tree_bytes(process: int) -> int:
    """Bytes that a process and all that it started hold: a page that n of them share counts one n-th for each."""
    home = Path(f"/proc/{process}")
    total = 0
    with suppress(OSError):  # it may have ended meanwhile
        for line in (home / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) * 1024
        for children in home.glob("task/*/children"):  # a child belongs to the thread that started it
            total += sum(tree_bytes(int(child)) for child in children.read_text().split())
    return total
