"""Seconds that a user waits: for `hoca --help`, `import hoca`, the sentence of one clip of 15 s, and of the next one.

`hoca --help`, `import hoca` and `hoca caption` are processes of their own, from start to end, the backbones' weights in
the cache. `hoca caption` chooses its precision. A `new process` in a given precision is `hoca.load()` and `caption()`;
`next clip` is a further `caption()` in it. `networks` are the seconds of these in which backbones computed.

The clip is the demo's `bikes` from its start until 15 s are full, with a tone, for models that listen.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import torch

from hoca import assets, media
from hoca.bench import Row, conditions, write_rows
from hoca.bench.extract import TONE_RATE, tone
from hoca.bench.processes import run_python
from hoca.errors import UserError
from hoca.progress import say
from hoca.threads import cores

KEYS = ("what", "precision", "processor", "cores")
DEMO, SECONDS, FPS = "demo-bikes", 15, 25
NEXT = 2  # further clips in each process
ARITHMETIC = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")  # what the networks' speed needs
CAPTIONS = """
import json, sys, time
import hoca
model, precision, device, clip, count = json.loads(sys.argv[1])
captioner = hoca.load(model, device)
from hoca.features import Extractor
captioner.extractor = Extractor(captioner.specification, device=device, precision=precision)
found = []
for _ in range(count):
    begun = time.perf_counter()
    caption = captioner.caption(clip)
    found.append((time.perf_counter() - begun, caption.seconds["features"]))
captioner.close()
print(json.dumps(found))
"""
Spent = tuple[float, float | None]  # seconds, and the networks' part of them


def waits(model: str, clip: str | None, precisions: Sequence[str], runs: int, device: torch.device, out: Path) -> None:
    """Each in turn, so many times."""
    found: dict[tuple[str, str], list[Spent]] = defaultdict(list)
    with _clip(clip) as file:
        arguments = ["-m", "hoca", "caption", file, "--model", model, "--device", str(device), "--json"]
        run_python(arguments)  # from here on the weights are in the cache, and all files in memory
        for _ in range(runs):
            found["hoca --help", ""].append((_seconds("-m", "hoca", "--help"), None))
            found["import hoca", ""].append((_seconds("-c", "import hoca"), None))
            done = run_python(arguments)
            found["hoca caption", "auto"].append((done.seconds, done.said["seconds"]["features"]))
            for precision in precisions:
                given = json.dumps([model, precision, str(device), file, 1 + NEXT])
                done = run_python(["-c", CAPTIONS, given])
                (_, networks), *following = done.said
                alone = done.seconds - sum(seconds for seconds, _ in following)
                found["new process", precision].append((alone, networks))
                found["next clip", precision] += following
    write_rows(out, [_row(*of, spent, device) for of, spent in found.items()], KEYS)
    say(f"the seconds of one clip are in {out}")


def _row(what: str, precision: str, spent: list[Spent], device: torch.device) -> Row:
    seconds = sorted(each for each, _ in spent)
    networks = [part for _, part in spent if part is not None]
    row: Row = conditions(device) | {"what": what, "precision": precision, "processor": _processor(), "cores": cores()}
    row |= {"runs": len(spent), "seconds": f"{statistics.median(seconds):.3g}"}
    row |= {"low": f"{seconds[0]:.3g}", "high": f"{seconds[-1]:.3g}"}
    say(f"{f'{what} {precision}'.strip()}: {row['seconds']} s")
    return row | {"networks": f"{statistics.median(networks):.3g}" if networks else ""}


def _seconds(*arguments: str) -> float:
    begun = perf_counter()
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise UserError(f"nothing was measured: {' '.join(arguments)} ended with status {done.returncode}")
    return perf_counter() - begun


@contextmanager
def _clip(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with TemporaryDirectory() as folder:
        file = Path(folder, "bikes-15s.mp4")
        frames = media.read(assets.path(DEMO), rate=None).frames
        longer = np.take(frames, range(SECONDS * FPS), axis=0, mode="wrap")
        media.write(file, longer, FPS, tone(SECONDS), rate=TONE_RATE)
        yield str(file)


def _processor() -> str:
    """Its name, and which of the arithmetic that matters it has; empty where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    has = set(told.get("flags", "").split())
    return ", ".join([told.get("model name", ""), *(name for name in ARITHMETIC if name in has)])
