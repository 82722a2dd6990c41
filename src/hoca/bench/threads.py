"""CPU threads as hoca chooses them, beside fixed numbers of them and beside torch's own choice.

    hoca bench threads                                   # some minutes; the machine should have nothing else to do
    hoca bench threads repeats=1 train_videos=40 clips=1     # that it runs

Two pieces of work, each as a command in a process of its own: an epoch of a small training (`hoca train`, without its
first epoch) and some clips (`hoca caption`, without loading). Each runs alone, and beside one process that keeps a core
busy. `default` is what hoca chooses, a number is OMP_NUM_THREADS, `torch` is torch without hoca: a thread per core, and
threads that wait in a loop. `times_best` compares with the best of those that sleep while they wait. Every run must
give the losses and sentences of the first, or it gets no ratio.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hoca.bench import Row, conditions, write_rows
from hoca.data import binding
from hoca.errors import UserError, nearest
from hoca.options import option
from hoca.progress import say
from hoca.threads import GIVEN, cores
from hoca.training.recipe import Recipe, nested

KEYS = ("work", "beside", "threads")
SPINS = 300_000  # rounds that OpenMP waits in a loop unless it is told otherwise
ALLOWED = 0.01  # relative difference of the losses, which are summed in another order
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"  # ends with whoever started it, killed or not
TORCH = "torch"  # the choice whose threads do not sleep
BESIDE = {"nothing": 0, "one busy process": 1}


@dataclass(frozen=True)
class Options:
    repeats: int = option(3, "runs of each, of which the median counts", least=1)
    epochs: int = option(4, "of a training; the first is not counted", least=2)
    train_videos: int = option(400, "videos of the small training", least=10)
    clips: int = option(4, "clips to caption; 0 = no captioning is measured", least=0)
    model: str = option("default", "captions the clips: a run folder, a checkpoint or `default`")
    counts: list[int] = option([], "fixed numbers of threads; empty: 1, 2, 4, … up to the cores")
    torch: bool = option(True, "measure torch's own choice, too, which may take up to the limit")
    beside: list[str] = option(list(BESIDE), "what else the machine does")
    limit: float = option(120.0, "seconds after which a run is stopped", least=1)

    def __post_init__(self) -> None:
        for name in self.beside:
            if name not in BESIDE:
                raise UserError(f"beside: there is no {name!r}: {nearest(name, BESIDE)}")


@dataclass(frozen=True)
class Measured:
    seconds: float | None  # None: it was stopped at the limit
    result: Any = None  # what it computed, to compare


def run(options: Options, *, device: torch.device, out: Path) -> None:
    """The processor is what is measured, whatever the device."""
    counts = options.counts or sorted({cores(), *(2**power for power in range(8) if 2**power < cores())})
    settings = {"default": {}, **{str(count): _fixed(count) for count in counts}}
    if options.torch:
        settings[TORCH] = _fixed(cores(), SPINS)
    with tempfile.TemporaryDirectory() as folder:
        works: dict[str, Work] = {"train": _Training(options, Path(folder))}
        if options.clips:
            works["caption"] = _Captioning(options, Path(folder))
        for work, measured in works.items():
            for beside in options.beside:
                with _busy(BESIDE[beside]):
                    found = _measure(measured, settings, options)
                write_rows(out, _rows(work, beside, found, options), KEYS)
    say(f"the table is {out}")


def _fixed(count: int, spins: int | None = None) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(count)} | ({} if spins is None else {"GOMP_SPINCOUNT": str(spins)})


class _Training:
    """Epochs of the built-in dataset with the model and the batches of the recipe binding."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.folder, self.runs = folder, 0
        clips = binding.BindingOptions(train=options.train_videos, validation=2, test=0)
        binding.prepare(folder / "data", clips)
        keys = {"hidden": 64, "attention": 64, "embedding": 32, "max_steps": 20, "batch_size": 50, "device": "cpu"}
        keys |= {"captions_per_video": 2, "epochs": options.epochs, "data": str(folder / "data"), "dropout": 0.0}
        Recipe.of(nested(keys, Recipe())).write(folder / "small.yaml")

    def __call__(self, environment: dict[str, str], limit: float) -> Measured:
        self.runs += 1
        run = self.folder / f"run-{self.runs}"
        if _hoca(environment, limit, "train", str(self.folder / "small.yaml"), f"run={run}") is None:
            return Measured(None)
        with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return Measured(statistics.median(float(row["seconds"]) for row in rows[1:]), float(rows[0]["loss"]))

    def alike(self, one: Any, other: Any) -> bool:
        return abs(one - other) <= ALLOWED * abs(other)


class _Captioning:
    """Clips of the built-in dataset through the backbones and the search of a model."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.model = options.model
        made = binding.BindingOptions(train=0, validation=0, test=options.clips, picture=256, silent=0)
        self.clips = sorted((binding.prepare(folder / "clips", made, videos=True) / "videos").iterdir())

    def __call__(self, environment: dict[str, str], limit: float) -> Measured:
        said = _hoca(environment, limit, "caption", *map(str, self.clips), "--model", self.model, "--json")
        if said is None:
            return Measured(None)
        captions = [json.loads(line) for line in said.splitlines()]
        spent = [seconds for each in captions for stage, seconds in each["seconds"].items() if stage != "backbones"]
        return Measured(sum(spent), [each["text"] for each in captions])

    def alike(self, one: Any, other: Any) -> bool:
        return one == other


Work = _Training | _Captioning


def _hoca(environment: dict[str, str], limit: float, *arguments: str) -> str | None:
    """The standard output of a command; None: it was stopped at the limit."""
    chosen = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", *GIVEN)
    inherited = {name: value for name, value in os.environ.items() if name not in chosen}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hoca", *arguments],
            capture_output=True,
            text=True,
            env=inherited | environment,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise UserError(f"nothing was measured: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """So many processes that use all of a core each, while the block runs."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _measure(work: Work, settings: dict[str, dict[str, str]], options: Options) -> dict[str, list[Measured]]:
    """One setting after the other, again and again, so that a change of the machine's mood meets them all."""
    found: dict[str, list[Measured]] = {name: [] for name in settings}
    for _ in range(options.repeats):
        for name, environment in settings.items():
            if not any(each.seconds is None for each in found[name]):  # too slow once is enough
                found[name].append(work(environment, options.limit))
    first = next((each for runs in found.values() for each in runs if each.seconds is not None), None)
    return {
        name: [each for each in runs if each.seconds is None or first is None or work.alike(each.result, first.result)]
        for name, runs in found.items()
    }


def _rows(work: str, beside: str, found: dict[str, list[Measured]], options: Options) -> list[Row]:
    seconds = {name: _median(runs) for name, runs in found.items()}
    best = min((value for name, value in seconds.items() if value is not None and name != TORCH), default=None)
    rows = []
    for name, value in seconds.items():
        ratio = "" if value is None or best is None else f"{value / best:.2f}"
        over = any(each.seconds is None for each in found[name])
        row = conditions(torch.device("cpu")) | {
            **{"device": f"cpu, {cores()} cores", "work": work, "beside": beside, "threads": name},
            **{"train_videos": options.train_videos, "clips": options.clips, "repeats": len(found[name])},
            **{"seconds": f"> {options.limit:g}" if over else "" if value is None else f"{value:.3f}"},
            **{"times_best": ratio},
        }
        rows.append(row)
        say(f"{work:8} beside {beside:16}  threads {name:>7}: {row['seconds']:>7} s  × the best {ratio or '-'}")
    return rows


def _median(runs: Sequence[Measured]) -> float | None:
    """None where a run was stopped, or none computed what it should."""
    times = [each.seconds for each in runs if each.seconds is not None]
    return statistics.median(times) if times and len(times) == len(runs) else None
