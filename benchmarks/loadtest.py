"""Captions through the page's API: how many at once, how long each takes, how much memory it holds.

python benchmarks/loadtest.py [--model MODEL] [--requests 200] [--clients 16]

Starts `hoca serve` on this machine, asks it from so many threads, and writes results/serve.csv. None may be lost, no
upload may be left behind, and memory must not grow: with requests in four parts, the last may hold no more than a tenth
over the second.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hoca.data import binding
from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
PARTS = 4
BEAM = 8  # the shipped model's own
ALLOWED_GROWTH = 1.1


def memory(process: int) -> int:
    """Bytes that a process and its children hold, as Linux counts them (shared pages divided)."""
    home = Path(f"/proc/{process}")
    try:
        held = re.search(r"^Pss:\s+(\d+) kB", (home / "smaps_rollup").read_text(), re.MULTILINE)
        # A child belongs to the thread that started it.
        children = [child for each in home.glob("task/*/children") for child in each.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * int(held[1] if held else 0) + sum(memory(int(child)) for child in children)


@contextmanager
def serving(folder: Path, model: str) -> Iterator[tuple[str, int]]:
    """`hoca serve` in a process of its own; yields its address and its id."""
    environment = os.environ | {"TMPDIR": str(folder)}
    with open(folder / "log", "w") as log:
        command = [sys.executable, "-m", "hoca", "serve", "--port", "0", "--model", model]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        while not (found := re.search(r"hoca is at (\S+);", (folder / "log").read_text())):
            if process.poll() is not None:
                sys.exit(f"the server ended at once: {(folder / 'log').read_text()}")
            time.sleep(0.2)
        yield found[1], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def clips(folder: Path, given: list[Path]) -> list[Path]:
    """Eight different clips: those given, in turn, or rendered ones."""
    if given:
        return given
    options = binding.BindingOptions(train=0, validation=0, test=8, silent=0.25, seed=3)
    made = binding.prepare(folder / "clips", options, videos=True)
    return sorted((made / "videos").glob("*.mp4"))


class Load:
    """Requests from several clients, with the time of each."""

    def __init__(self, address: str, model: str, clients: int, timeout: float) -> None:
        from gradio_client import Client

        self.clients = [Client(address, verbose=False, analytics_enabled=False) for _ in range(clients)]
        self.mine = threading.local()
        self.free = list(self.clients)
        self.model = model
        self.timeout = timeout

    def ask(self, clip: Path) -> float | str:
        """Seconds that the answer took, or what was said instead."""
        from gradio_client import handle_file

        if not hasattr(self.mine, "client"):
            self.mine.client = self.free.pop()
        begun = time.perf_counter()
        try:
            job = self.mine.client.submit(handle_file(str(clip)), self.model, BEAM, api_name="/caption")
            answer = job.result(timeout=self.timeout)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return time.perf_counter() - begun if answer["text"] else "an empty sentence"


def run(options: argparse.Namespace) -> dict[str, Any]:
    from hoca.explain import model_name

    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    conditions = [f"{len(os.sched_getaffinity(0))} CPU cores", f"beam {BEAM}", f"OMP_NUM_THREADS {threads}"]
    conditions += [f"load of the machine before {os.getloadavg()[0]:.1f}"]
    with tempfile.TemporaryDirectory(prefix="loadtest-") as name:
        folder = Path(name)
        videos = clips(folder, options.clips)
        # Copies with names of their own, equal contents among them, as visitors would bring them.
        copies = [Path(shutil.copy(videos[i % len(videos)], folder / f"clip-{i}.mp4")) for i in range(options.requests)]
        model = str(Path(options.model).resolve()) if Path(options.model).exists() else options.model
        with serving(folder, model) as (address, process):
            load = Load(address, model_name(options.model), options.clients, options.timeout)
            held, answers = [], []
            begun = time.perf_counter()
            with ThreadPoolExecutor(options.clients) as threads:
                for part in range(PARTS):
                    first, last = (options.requests * p // PARTS for p in (part, part + 1))
                    answers += list(threads.map(load.ask, copies[first:last]))
                    held.append(memory(process))
                    print(f"{last} of {options.requests} answered, {held[-1] / 2**20:.0f} MiB", flush=True)
            seconds = time.perf_counter() - begun
            left = [path.name for path in folder.glob("hoca-*/uploads/**/*") if path.is_file()]
    lost = [answer for answer in answers if isinstance(answer, str)]
    times = sorted(answer for answer in answers if isinstance(answer, float))
    if lost or left or held[-1] > ALLOWED_GROWTH * held[1]:
        mebibytes = [round(part / 2**20) for part in held]
        sys.exit(f"lost {len(lost)} {lost[:3]}, left behind {left[:3]}, MiB by part {mebibytes}")
    quantiles = statistics.quantiles(times, n=20, method="inclusive")
    return {
        "model": model_name(options.model),
        "clips": "given" if options.clips else "binding, 4 s",
        "requests": len(answers),
        "clients": options.clients,
        "lost": len(lost),
        "left_behind": len(left),
        "captions_per_s": f"{len(times) / seconds:.2f}",
        "latency_s_median": f"{statistics.median(times):.2f}",
        "latency_s_95": f"{quantiles[-1]:.2f}",
        "latency_s_most": f"{times[-1]:.2f}",
        **{f"mib_{part + 1}": round(size / 2**20) for part, size in enumerate(held)},
        "conditions": ", ".join(conditions),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one answer")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "serve.csv")
    parser.add_argument("clips", nargs="*", type=Path, help="clips to send; rendered ones by default")
    options = parser.parse_args()
    row = run(options)
    with replacing(options.out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)
    print(options.out.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
