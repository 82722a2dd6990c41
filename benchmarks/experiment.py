"""Many training runs, several side by side; each finished run is a row, so that the same command continues.

The studies beside this file say which runs there are. A run that is a row of the table, or of one of `--done`, is not
trained again. Parts made on several machines are put together by

    python benchmarks/experiment.py merge results/binding-runs.csv part-1.csv part-2.csv

Beside TABLE.csv stand TABLE.captions.jsonl.gz, what each run said about the test videos, and further measurements of a
study, such as TABLE.attention.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gc
import gzip
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hoca.files import replacing
from hoca.progress import say

if TYPE_CHECKING:
    from hoca.data import Corpus, FolderDataset
    from hoca.models import CaptionModel

ROOT = Path(__file__).resolve().parent.parent
SCORES = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr")
IDENTITY = ("dataset", "recipe", "overrides", "seed", "fold")  # the columns that say which run it is
SAID = "captions"  # the file beside a table with what the runs said

Row = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One training. What is measured of it besides its scores, `measure` does: MODULE:FUNCTION of benchmarks/."""

    study: str
    variant: str  # of its row in the table
    recipe: Path
    data: Path  # folder of the dataset
    dataset: str  # what the folder holds, in words that are the same on every machine
    overrides: tuple[str, ...] = ()
    seed: int = 0
    fold: int = 0
    files: tuple[str, ...] = ()  # overrides that say where files are, which is no part of what the run is
    measure: str = ""
    after: Run | None = None  # begin from its best checkpoint
    kept: bool = False  # its best checkpoint stays in the folder of the runs, for those that begin from it

    @property
    def identity(self) -> Row:
        overrides = " ".join((*self.overrides, *(("after", *self.after.overrides) if self.after else ())))
        values = (self.dataset, self.recipe.name, overrides, str(self.seed), str(self.fold))
        return dict(zip(IDENTITY, values, strict=True))

    @property
    def key(self) -> Key:
        return key_of(self.identity)

    @property
    def name(self) -> str:
        """Of its folder, unlike that of any other run."""
        readable = re.sub(r"[^a-z0-9]+", "-", f"{self.variant} {self.seed} {self.fold}")
        return f"{readable}-{hashlib.sha256('|'.join(self.key).encode()).hexdigest()[:8]}"


@dataclass
class Measured:
    """What a study measures of a trained model besides the scores."""

    columns: Row = field(default_factory=dict)  # of the run's row
    tables: dict[str, list[Row]] = field(default_factory=dict)  # rows of files beside the table
    said: dict[str, dict[str, str]] = field(default_factory=dict)  # further captions of the test videos, by name


def key_of(row: Mapping[str, Any]) -> Key:
    return tuple(str(row[name]) for name in IDENTITY)


def in_rounds(runs: Iterable[Run]) -> list[Run]:
    """The runs so that every variant has one seed and fold before any has two."""
    return sorted(runs, key=lambda run: (run.seed, run.fold))


def last_of_each(overrides: Iterable[str]) -> tuple[str, ...]:
    """KEY=VALUE, the later value of a key in place of an earlier one."""
    return tuple(f"{key}={value}" for key, value in dict(each.split("=", 1) for each in overrides).items())


Plan = Callable[[Mapping[Key, Row]], Sequence[Run]]


def _as_plan(runs: Sequence[Run] | Plan) -> Plan:
    return runs if callable(runs) else lambda finished: in_rounds(runs)


def train(
    runs: Sequence[Run] | Plan,
    table: Path,
    *,
    jobs: int = 1,
    minutes: float = float("inf"),
    done: Sequence[Path] = (),
    keep: Sequence[str] = (),
    folder: Path = ROOT / "runs" / "experiments",
    commit: str = "",
) -> int:
    """Train what is in none of the tables, `jobs` at a time; returns how many runs failed.

    runs: all of them, or a function from the finished rows to the runs known so far, in the order to train them: what
    depends on the outcome of others is known later. After `minutes` none is started any more. Unfinished runs are in
    `folder`, from where they are resumed. The checkpoints of the variants in `keep`, of seed and fold 0, are put beside
    the table.
    """
    plan = _as_plan(runs)
    finished = rows_by_key(table, *done)
    known = plan(finished)
    left = sum(run.key not in finished for run in known)
    say(f"{len(known) - left} of {len(known)} runs are done, {jobs} at a time")
    folder.mkdir(parents=True, exist_ok=True)
    table.parent.mkdir(parents=True, exist_ok=True)
    begun, ended, failed = time.monotonic(), 0, 0
    started: set[Key] = set()
    running: dict[Future[Any], Run] = {}
    with ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(folder,)
    ) as pool:
        while True:
            waiting = [run for run in plan(finished) if run.key not in finished and run.key not in started]
            while waiting and len(running) < jobs and time.monotonic() - begun < 60 * minutes:
                run = waiting.pop(0)
                started.add(run.key)
                running[pool.submit(_finish, run, folder, commit or _commit(), jobs)] = run
            if not running:
                if waiting:
                    say(f"{minutes:g} minutes are over: {len(waiting)} runs are left for the next time")
                return failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                run, found = running.pop(future), future.result()
                ended += 1
                if isinstance(found, str):
                    failed += 1
                    say(f"{run.study} {run.variant} seed {run.seed} fold {run.fold} failed:\n{found}")
                    continue
                row, measured = found
                if run.variant in keep and (run.seed, run.fold) == (0, 0):
                    best = folder / run.name / "checkpoint" / "best.safetensors"
                    shutil.copyfile(best, table.with_name(f"{run.name}.safetensors"))
                _append(table, run, row, measured)
                finished[run.key] = row
                shutil.rmtree(folder / run.name)
                say(
                    f"{ended}, {len(waiting)} left, {time.monotonic() - begun:.0f} s: {run.study} {run.variant} of "
                    f"{run.dataset.split()[0]} seed {run.seed} fold {run.fold}: CIDEr {100 * float(row['CIDEr']):.1f}, "
                    f"{row['epochs']} epochs, {row['seconds']} s"
                )


def _start_worker(folder: Path) -> None:
    """One thread, and what is said goes to a log."""
    log = os.open(folder / f"worker-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    import torch

    torch.set_num_threads(1)


def _finish(run: Run, folder: Path, commit: str, jobs: int) -> tuple[Row, Measured] | str:
    """Train and measure; what went wrong, in words, where something did."""
    try:
        row, measured = _train_one(run, folder / run.name, commit)
        return row | {"jobs": jobs}, measured  # times depend on how many share the machine
    except Exception:  # one run that fails should not end the others
        return traceback.format_exc()
    finally:
        _free_memory()


def _free_memory() -> None:
    """What a run leaves, captured graphs among it, is gone before the next one begins."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _train_one(run: Run, folder: Path, commit: str) -> tuple[Row, Measured]:
    import torch

    from hoca.checkpoint import load_model
    from hoca.devices import choose_device
    from hoca.distributed import Distributed
    from hoca.evaluation import caption_split, score

    begun = time.monotonic()
    if run.after is None:
        dataset, device = _fit(run, folder)
    else:
        dataset, device = _fit(run, folder, (f"init_from={_best_of(run.after, folder.parent)}",))
    dist = Distributed(0, 1, choose_device(device))
    if run.kept:
        _keep(run, folder)
    loaded = load_model(folder)
    model = loaded.model.to(dist.device)
    dataset.number_categories(model.config.categories)
    captioned = time.monotonic()
    said = caption_split(model, dataset, "test", loaded.search, dist)
    captioned = time.monotonic() - captioned
    scores = score(dataset.corpus.references("test"), said, SCORES).corpus
    measured = _measurement(run.measure)(folder, model, dataset, said) if run.measure else Measured()
    measured.said = {"test": said} | measured.said
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        epochs = list(csv.DictReader(file))
    curve = [float(row["CIDEr"] or "nan") for row in epochs]
    row = {
        "study": run.study,
        "variant": run.variant,
        **run.identity,
        "commit": commit,
        "device": torch.cuda.get_device_name() if dist.device.type == "cuda" else "CPU",
        "weights": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": round(time.monotonic() - begun),
        "seconds_an_epoch": statistics.median(float(row["seconds"]) for row in epochs),
        "captions_a_second": round(len(said) / captioned, 1),
        "epochs": len(epochs),
        "best_epoch": max(range(1, len(curve) + 1), key=lambda epoch: np.nan_to_num(curve[epoch - 1], nan=-1)),
        **{name: round(scores[name], 5) if name in scores else "" for name in SCORES},
        "nats": round(nats_per_word(model, dataset), 5),
        **measured.columns,
        "curve": " ".join(f"{value:.3f}" for value in curve),
    }
    return row, measured


def _fit(run: Run, folder: Path, more: Sequence[str] = ()) -> tuple[FolderDataset, str]:
    """Train; returns the dataset, and the name of the device."""
    from hoca.devices import choose_device
    from hoca.training import read_recipe
    from hoca.training import train as train_run

    settings = (*run.overrides, *run.files, *more, f"data={run.data}", f"seed={run.seed}", f"run={folder}")
    recipe = read_recipe(run.recipe, settings)
    device = str(choose_device(recipe.device))
    dataset, corpus = _dataset(str(run.data), recipe.data.modalities, recipe.data.features, device)
    dataset.corpus = corpus  # a run before may have numbered the categories as its model has them
    train_run(recipe, resume=True, dataset=dataset)
    return dataset, recipe.device


def _best_of(run: Run, folder: Path) -> Path:
    """The best checkpoint of a run, which is trained once more where it was not kept, as on another machine."""
    if not _kept(run, folder).is_file():
        _fit(run, folder / run.name)
        _keep(run, folder / run.name)
        shutil.rmtree(folder / run.name)
    return _kept(run, folder)


def _kept(run: Run, folder: Path) -> Path:
    return folder / "best" / f"{run.name}.safetensors"


def _keep(run: Run, folder: Path) -> None:
    kept = _kept(run, folder.parent)
    kept.parent.mkdir(exist_ok=True)
    with replacing(kept) as temporary:
        shutil.copyfile(folder / "checkpoint" / "best.safetensors", temporary)


@lru_cache(maxsize=12)
def _dataset(
    folder: str, modalities: tuple[str, ...], features: str | None, device: str
) -> tuple[FolderDataset, Corpus]:
    """Read once per process: there are thousands of files."""
    from hoca.data import FolderDataset

    dataset = FolderDataset(folder, modalities=list(modalities) or None, features=features).preload(device=device)
    return dataset, dataset.corpus


def _measurement(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def nats_per_word(model: CaptionModel, dataset: FolderDataset, split: str = "test") -> float:
    """The model's loss on the captions of a split, eq. 24: steadier than scores of what it says."""
    import torch

    from hoca.data import Batches
    from hoca.training.objectives import word_losses

    pad, device = model.vocabulary.pad, next(model.parameters()).device
    total = words = 0.0
    model.eval()
    with torch.no_grad():
        for batch in Batches(dataset, split, model.vocabulary, batch_size=16):
            batch = batch.to(device)
            logits = model(batch.features, batch.lengths, batch.words[:, :, :-1], batch.category)
            total += float(word_losses(logits, batch.words[:, :, 1:], pad).sum())
            words += int((batch.words[:, :, 1:] != pad).sum())
    return total / words


def _commit() -> str:
    """That of the code, with a + where it was changed since; a copy without its history does not know."""
    try:
        found = [
            subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found[0] + ("+" if found[1] else "")


def beside(table: Path, name: str) -> Path:
    return table.with_name(f"{table.stem}.{name}" + (".jsonl.gz" if name == SAID else ".csv"))


def _append(table: Path, run: Run, row: Row, measured: Measured) -> None:
    """The row comes last: what it stands for is there when it is."""
    with gzip.open(beside(table, SAID), "at", encoding="utf-8") as file:
        for name, said in measured.said.items():
            file.write(json.dumps({"run": run.key, "name": name, "said": said}, ensure_ascii=False) + "\n")
    for name, rows in measured.tables.items():
        labels = {"study": run.study, "variant": run.variant} | run.identity
        write(beside(table, name), [*read(beside(table, name)), *(labels | each for each in rows)])
    write(table, [*read(table), row])


def read(table: Path) -> list[Row]:
    if not table.is_file():
        return []
    with open(table, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_by_key(*tables: Path) -> dict[Key, Row]:
    return {key_of(row): row for path in tables for row in read(path)}


def rows_of(runs: Sequence[Run], *tables: Path) -> list[Row]:
    """The rows of those of the runs that are finished, in the runs' order and with their names."""
    found = rows_by_key(*tables)
    return [found[run.key] | {"study": run.study, "variant": run.variant} for run in runs if run.key in found]


def read_said(*tables: Path) -> Iterator[tuple[Key, str, dict[str, str]]]:
    """Of each run: which one, the name of its captions and what it said, video by video."""
    for path in (beside(table, SAID) for table in tables if beside(table, SAID).is_file()):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                each = json.loads(line)
                yield tuple(each["run"]), each["name"], each["said"]


def write(path: Path, rows: Sequence[Row]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


def merge(table: Path, parts: Sequence[Path]) -> None:
    """One table of all runs, the first row of each; the same of the files beside it."""
    parts = [path for path in (table, *parts) if path.is_file()]
    names = {path.name.split(".")[1] for part in parts for path in part.parent.glob(f"{part.stem}.*.csv")}
    for name in sorted(names):
        found: dict[Key, list[Row]] = {}
        for part in parts:
            of_part: dict[Key, list[Row]] = {}
            for row in read(beside(part, name)):
                of_part.setdefault(key_of(row), []).append(row)
            found = of_part | found
        write(beside(table, name), [row for rows in found.values() for row in rows])
    said: dict[tuple[Key, str], dict[str, str]] = {}
    for part in parts:
        for key, name, captions in read_said(part):
            said.setdefault((key, name), captions)
    if said:
        with replacing(beside(table, SAID)) as temporary, gzip.open(temporary, "wt", encoding="utf-8") as file:
            for (key, name), captions in said.items():
                file.write(json.dumps({"run": key, "name": name, "said": captions}, ensure_ascii=False) + "\n")
    rows: dict[Key, Row] = {}
    for part in parts:
        for row in read(part):
            rows.setdefault(key_of(row), row)
    write(table, list(rows.values()))
    say(f"{table}: {len(rows)} runs")


def fill_in_meteor(table: Path, references: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Score METEOR of the runs that were made where its word lists are not; references: dataset → video → captions."""
    from hoca.metrics import Evaluator

    rows = read(table)
    lacking = {key_of(row) for row in rows if not row.get("METEOR")}
    evaluators = {name: Evaluator(each) for name, each in references.items()}
    found = {
        key: evaluators[key[0]].evaluate(said, ("METEOR",)).corpus["METEOR"]
        for key, name, said in read_said(table)
        if name == "test" and key in lacking and key[0] in evaluators
    }
    for row in rows:
        if key_of(row) in found:
            row["METEOR"] = round(found[key_of(row)], 5)
    if found:
        write(table, rows)


def arguments(parser: argparse.ArgumentParser, table: Path) -> None:
    """What every study can be told about its training."""
    parser.add_argument("--table", type=Path, default=table, help="where finished runs are written")
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="further tables whose runs are not repeated")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, each in a process of its own")
    parser.add_argument("--limit-minutes", type=float, default=float("inf"), help="then no run is started any more")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--keep", nargs="*", default=[], help="variants whose first checkpoints are put beside the table"
    )
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "experiments", help="of unfinished runs")
    parser.add_argument("--commit", default="", help="of the code, where its history is not at hand")
    parser.add_argument("--list", action="store_true", help="say which runs are left, and train none")
    parser.add_argument(
        "--overrides", nargs="*", default=[], help="KEY=VALUE: keys of the recipe to change in all runs"
    )


def train_as_told(
    runs: Sequence[Run] | Plan, options: argparse.Namespace, prepare: Callable[[Run], object] | None = None
) -> None:
    """Train as the `arguments` say; exits with 1 where a run failed. prepare: makes the data of a run."""
    finished = rows_by_key(options.table, *options.done)
    left = [run for run in _as_plan(runs)(finished) if run.key not in finished]
    if options.list:
        with contextlib.suppress(BrokenPipeError):
            for run in left:
                print(run.study, run.variant, *run.key, sep=" | ")
        return
    if prepare is not None:
        for run in {run.data: run for run in left}.values():
            prepare(run)
    failed = train(
        runs,
        options.table,
        jobs=options.jobs,
        minutes=options.limit_minutes,
        done=options.done,
        keep=options.keep,
        folder=options.runs,
        commit=options.commit,
    )
    if failed:
        sys.exit(f"{failed} runs failed")


def carry_out(options: argparse.Namespace, **steps: Callable[[argparse.Namespace], None]) -> None:
    """The step of a study that its command names; `all` is training, then the tables."""
    for name in ("train", "table") if options.command == "all" else (options.command,):
        steps[name](options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("merge",))
    parser.add_argument("table", type=Path)
    parser.add_argument("parts", type=Path, nargs="+")
    options = parser.parse_args()
    merge(options.table, options.parts)


if __name__ == "__main__":
    main()
