"""How many CPU threads torch computes with, chosen by the work.

A second thread pays only where it has enough to do. Threads that wait for each other sleep: `hoca/__init__.py` asks
OpenMP for that before torch loads it, because a thread that waits in a loop takes the core that others need.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

GIVEN = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # who sets one of them, such as torchrun, has chosen
WORK_OF_A_THREAD = 20_000_000  # multiplications in one call for which a thread more gains about what it costs
SAMPLES, BETWEEN = 3, 0.002  # of what else runs, and the seconds between them


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(multiplications: int) -> int:
    """Threads for a call of so many multiplications: on the same machine always the same, so results are too."""
    return max(1, min(cores(), multiplications // WORK_OF_A_THREAD))


def free_cores() -> int:
    """Cores that nothing else uses at this moment, at least one: for work so large that it would take them all."""
    others = []
    for sample in range(SAMPLES):
        if sample:
            time.sleep(BETWEEN)
        others.append(_running() - 1)  # this thread is one of them
    return max(1, min(cores(), (os.cpu_count() or 1) - round(statistics.median(others))))


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads within the block, unless the user has chosen their number."""
    if any(name in os.environ for name in GIVEN):
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def thread_per_core() -> Iterator[ThreadPoolExecutor]:
    """As many threads as cores, in each of which torch works by itself; until the end, it does so everywhere.

    Else torch's threads share each operation and wait for the slowest of them: one whose core is busy with decoding.
    """
    import torch

    before = torch.get_num_threads()
    count = before if any(name in os.environ for name in GIVEN) else cores()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        torch.set_num_threads(before)


def fix_threads(count: int) -> None:
    """The user's choice, for this process and those that it starts."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:  # it reads the environment when it is loaded
        sys.modules["torch"].set_num_threads(count)


def _running() -> int:
    """Threads of all processes that run or wait for a core; where that is not told, this one."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1
