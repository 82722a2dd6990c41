"""Measurements, one command each: `hoca bench NAME [key=value ...]` writes `results/bench-NAME.csv`.

A benchmark NAME is a module `hoca.bench.NAME` with a dataclass `Options`, whose fields are its keys, and
`run(options, *, device, out)`. It checks what it measures in the same command, and gives ratios only where that holds.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hoca.devices import capturing
from hoca.errors import UserError, nearest
from hoca.files import replacing

Row = dict[str, Any]
LEAST_CALLS = 2  # the spread is taken from them
CONDITIONS = ("device", "driver", "torch", "triton", "commit")


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median of several, and the quartiles around it."""

    median: float
    low: float
    high: float
    calls: int

    def columns(self) -> Row:
        """As columns of a table, in milliseconds."""
        values = {"ms": self.median, "ms_low": self.low, "ms_high": self.high}
        return {name: f"{1e3 * value:.4g}" for name, value in values.items()} | {"calls": self.calls}


def conditions(device: torch.device) -> Row:
    """What a number depends on beside the code's options: the columns `CONDITIONS`."""
    gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if gpu else f"cpu, {torch.get_num_threads()} threads",
        "driver": _driver() if gpu else "",
        "torch": torch.__version__,
        "triton": _version("triton"),
        "commit": _commit(),
    }


def measure(
    call: Callable[[], object],
    device: torch.device,
    *,
    calls: int = 20,
    together: int = 1,
    warmup: int = 3,
    at_most: float = 30.0,
) -> Timing:
    """Time `call` between two events on a GPU, between two looks at the clock elsewhere.

    After the warm-up it is timed `calls` times, or less often if that takes longer than `at_most` seconds, but at
    least 3 times. Each time is the mean of so many calls `together`, between which the host does not wait: so the
    host's own work counts only as far as the device waits for it.
    """
    if calls < LEAST_CALLS:
        raise UserError(f"calls={calls} must be at least {LEAST_CALLS}: the spread is taken from them")
    for _ in range(warmup):
        call()
    _synchronize(device)
    seconds: list[float] = []
    begun = time.perf_counter()
    while len(seconds) < calls and (len(seconds) < 3 or time.perf_counter() - begun < at_most):
        seconds.append(_seconds(call, device, together))
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Timing(median, low, high, len(seconds))


def replayed(call: Callable[[], object], device: torch.device, together: int = 1) -> Callable[[], object]:
    """So many calls as a CUDA graph, without the host's part in them; elsewhere as they are."""

    def calls() -> None:
        for _ in range(together):
            call()

    if device.type != "cuda":
        return calls
    for _ in range(2):
        call()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with capturing(graph):
        calls()
    return graph.replay


def peak_memory(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes that are allocated at the highest point of `call`, those held before it included; None without a GPU."""
    if device.type != "cuda":
        call()
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device)


def relative_error(found: Tensor, expected: Tensor) -> float:
    """‖found − expected‖ / ‖expected‖, both in float64; NaN where either has one, so that no bound holds."""
    found, expected = found.detach().double(), expected.detach().double().to(found.device)
    return float((found - expected).norm() / expected.norm().clamp(min=1e-300))


def ratio(slow: Timing | float, fast: Timing | float, *, correct: bool) -> str:
    """How many times faster, or nothing while the check of the same command fails."""
    times = [time.median if isinstance(time, Timing) else time for time in (slow, fast)]
    return f"{times[0] / times[1]:.3g}" if correct else ""


def check_parts(chosen: Sequence[str], known: Collection[str]) -> None:
    """Refuse a part that a benchmark does not have."""
    for part in chosen:
        if part not in known:
            raise UserError(f"parts: there is no {part!r}: {nearest(part, known)}")


def write_rows(out: Path, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
    """Put rows into a table, in place of those with the same device and `keys`; the first columns are the conditions.

    All rows have the columns of the first one.
    """
    same = ("device", *keys)
    written = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    new = {tuple(row[name] for name in same) for row in written}
    kept: list[dict[str, str]] = []
    if out.is_file():
        with out.open(newline="", encoding="utf-8") as file:
            kept = [row for row in csv.DictReader(file) if tuple(row.get(name, "") for name in same) not in new]
    with replacing(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(written[0]), lineterminator="\n", extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows([*kept, *written])


def _seconds(call: Callable[[], object], device: torch.device, together: int) -> float:
    if device.type != "cuda":
        begun = time.perf_counter()
        for _ in range(together):
            call()
        return (time.perf_counter() - begun) / together
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(together):
        call()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1e3 / together


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@cache
def _driver() -> str:
    return _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]


@cache
def _commit() -> str:
    """Of the source, with a `+` where it has been changed since; HOCA_COMMIT says it where the source is a copy."""
    if "HOCA_COMMIT" in os.environ:
        return os.environ["HOCA_COMMIT"]
    here = str(Path(__file__).parent)
    number = _said("git", "-C", here, "rev-parse", "--short=10", "HEAD")
    return number + "+" * bool(number and _said("git", "-C", here, "status", "--porcelain", "--", ".."))


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
