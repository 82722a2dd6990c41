"""Captions through the page's API: how many at once, how long each takes, how much memory it holds.

python benchmarks/loadtest.py [--model MODEL] [--requests 2000] [--clients 16] [--kill-every 20]

Starts `hoca serve` on this machine, asks it from so many threads, and writes results/serve.csv. Meanwhile one of its
decoding processes is killed every so many seconds. None may be lost, no upload may be left behind, and memory,
descriptors and temporary files must not grow: with requests in four parts, the last may hold no more than a tenth over
the second. In the end more calls come at once than may wait: those it refuses must be told when to come back (503 and
Retry-After), the others answered.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hoca.bench.processes import tree_bytes
from hoca.data import binding
from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
PARTS = 4
BEAM = 8  # the shipped model's own
ALLOWED_GROWTH = 1.1
WAITING = 32  # calls that the server lets wait, at least as many as there are clients
BURST = 16  # calls beyond those, at once


@contextmanager
def serving(folder: Path, model: str) -> Iterator[tuple[str, int]]:
    """`hoca serve` in a process of its own; yields its address and its id."""
    environment = os.environ | {"TMPDIR": str(folder)}
    with open(folder / "log", "w") as log:
        command = [sys.executable, "-m", "hoca", "serve", "--port", "0", "--model", model, "--waiting", str(WAITING)]
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


def workers(process: int) -> list[int]:
    """The decoding processes of a server."""
    children = [
        child for each in Path(f"/proc/{process}").glob("task/*/children") for child in each.read_text().split()
    ]
    return [int(child) for child in children if b"hoca.media.worker" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def killing(process: int, every: float) -> Iterator[list[int]]:
    """Kill a decoding process at random moments, every so many seconds in the mean; yields those that were killed."""
    chance, killed, ended = random.Random(22), [], threading.Event()

    def kill() -> None:
        while not ended.wait(chance.uniform(0.5, 1.5) * every):
            with suppress(OSError, IndexError):  # ended meanwhile, or none has started
                worker = chance.choice(workers(process))
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    killer = threading.Thread(target=kill, daemon=True)
    if every:
        killer.start()
    yield killed
    ended.set()


def burst(address: str, clip: Path, model: str) -> list[str]:
    """More calls at once than may wait: what became of each."""
    import httpx

    content = clip.read_bytes()

    def call(number: int) -> str:
        with httpx.Client(timeout=600) as client:
            files = {"files": (f"{number}.mp4", content + bytes(number))}
            path = client.post(f"{address}/gradio_api/upload", files=files).json()[0]
            together.wait(300)
            data = [{"path": path, "meta": {"_type": "gradio.FileData"}}, model, BEAM]
            answer = client.post(f"{address}/gradio_api/call/caption", json={"data": data})
            if answer.status_code == 503:
                return "refused" if int(answer.headers.get("retry-after", "0")) else "refused without a time"
            event = client.get(f"{address}/gradio_api/call/caption/{answer.json()['event_id']}").text
            return "answered" if "event: complete" in event else event[:200]

    together = threading.Barrier(WAITING + BURST)
    with ThreadPoolExecutor(WAITING + BURST) as threads:
        return list(threads.map(call, range(WAITING + BURST)))


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
            held, files, temporary, answers = [], [], [], []
            begun = time.perf_counter()
            with ThreadPoolExecutor(options.clients) as threads, killing(process, options.kill_every) as killed:
                for part in range(PARTS):
                    first, last = (options.requests * p // PARTS for p in (part, part + 1))
                    answers += list(threads.map(load.ask, copies[first:last]))
                    held.append(tree_bytes(process))
                    files.append(len(os.listdir(f"/proc/{process}/fd")))
                    temporary.append(len([path for path in folder.glob("hoca-*/**/*") if path.is_file()]))
                    print(
                        f"{last} of {options.requests} answered, {held[-1] / 2**20:.0f} MiB, {files[-1]} descriptors, "
                        f"{temporary[-1]} temporary files, {len(killed)} killed",
                        flush=True,
                    )
            seconds = time.perf_counter() - begun
            crowd = burst(address, videos[0], model_name(options.model))
            left = [path.name for path in folder.glob("hoca-*/uploads/**/*") if path.is_file()]
    lost = [answer for answer in answers if isinstance(answer, str)]
    times = sorted(answer for answer in answers if isinstance(answer, float))
    grown = held[-1] > ALLOWED_GROWTH * held[1] or files[-1] > files[1] + 10 or temporary[-1] > temporary[1]
    odd = [answer for answer in crowd if answer not in ("answered", "refused")]
    if lost or left or grown or odd or "refused" not in crowd:
        parts = f"MiB {[round(part / 2**20) for part in held]}, descriptors {files}, temporary files {temporary}"
        sys.exit(f"lost {len(lost)} {lost[:3]}, left behind {left[:3]}, by part: {parts}; the crowd: {Counter(crowd)}")
    quantiles = statistics.quantiles(times, n=100, method="inclusive")
    return {
        "model": model_name(options.model),
        "clips": "given" if options.clips else "binding, 4 s",
        "requests": len(answers),
        "clients": options.clients,
        "lost": len(lost),
        "left_behind": len(left),
        "workers_killed": len(killed),
        "crowd": len(crowd),
        "crowd_refused": crowd.count("refused"),
        "captions_per_s": f"{len(times) / seconds:.2f}",
        "latency_s_median": f"{statistics.median(times):.2f}",
        "latency_s_95": f"{quantiles[94]:.2f}",
        "latency_s_99": f"{quantiles[98]:.2f}",
        "latency_s_most": f"{times[-1]:.2f}",
        **{f"mib_{part + 1}": round(size / 2**20) for part, size in enumerate(held)},
        **{f"descriptors_{part + 1}": count for part, count in enumerate(files)},
        **{f"temporary_{part + 1}": count for part, count in enumerate(temporary)},
        "conditions": ", ".join(conditions),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--kill-every", type=float, default=20, help="seconds in the mean; 0 = never")
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
