"""Many training runs, several at a time, and their scores as a table of means and standard deviations.

The experiments beside this file say which runs; each run is a process of its own: python experiment.py RECIPE RUN …
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoca.progress import track

ROOT = Path(__file__).resolve().parent.parent
SCORES = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr")

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    name: str  # of its row in the table
    seed: int
    folder: Path
    recipe: Path
    overrides: tuple[str, ...]

    @property
    def captions(self) -> Path:
        return self.folder / "captions-test.json"

    def said(self) -> dict[str, str]:
        """What the model said about the test videos."""
        return {row["image_id"]: row["caption"] for row in json.loads(self.captions.read_text(encoding="utf-8"))}


def train(runs: Sequence[Run], jobs: int) -> None:
    """Train every run that has not captioned its test split yet, `jobs` at a time; one that was cut off is resumed."""
    waiting = [run for run in runs if not run.captions.is_file()]
    total = len(waiting)
    running: dict[Run, subprocess.Popen[bytes]] = {}
    for _ in track(range(total), total=total, what="runs"):
        while len(running) < jobs and waiting:
            run = waiting.pop(0)
            running[run] = _start(run)
        while not (ended := [run for run, process in running.items() if process.poll() is not None]):
            time.sleep(0.2)
        if running.pop(ended[0]).returncode != 0:
            sys.exit(f"the run {ended[0].folder} failed: see {ended[0].folder}.log")


def _start(run: Run) -> subprocess.Popen[bytes]:
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, str(run.recipe), str(run.folder), f"seed={run.seed}", *run.overrides]
    with open(f"{run.folder}.log", "wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )


def _train_one(recipe: str, folder: str, *overrides: str) -> None:
    from hoca.training import read_recipe
    from hoca.training import train as train_run
    from hoca.training.report import evaluate

    train_run(read_recipe(Path(recipe), [*overrides, f"run={folder}"]), resume=True)
    nats = nats_per_word(Path(folder))
    (Path(folder) / "nats-test.json").write_text(json.dumps(nats))
    evaluate(Path(folder), metrics=("CIDEr",))


def nats_per_word(run: Path, split: str = "test") -> float:
    """The loss of the run's model on the captions of a split, eq. 24: steadier than scores of what it says."""
    import torch

    from hoca.captioning import load
    from hoca.data import Batches, FolderDataset
    from hoca.training.objectives import word_losses
    from hoca.training.recipe import read_run

    captioner, data = load(run), read_run(run).data
    model, pad = captioner.model, captioner.model.vocabulary.pad
    dataset = FolderDataset(data.folder, modalities=list(model.config.modalities), features=data.features)
    total = words = 0.0
    with torch.no_grad():
        for batch in Batches(dataset, split, model.vocabulary, batch_size=16):
            batch = batch.to(captioner.device)
            logits = model(batch.features, batch.lengths, batch.words[:, :, :-1], batch.category)
            total += float(word_losses(logits, batch.words[:, :, 1:], pad).sum())
            words += int((batch.words[:, :, 1:] != pad).sum())
    return total / words


def summary(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Mean and standard deviation over the seeds, in percent, of each row name."""
    names = dict.fromkeys(row["variant"] for row in rows)
    found = []
    for name in names:
        mine = [row for row in rows if row["variant"] == name]
        of_name: Row = {"variant": name, "seeds": len(mine)}
        for column in columns:
            values = [100 * row[column] for row in mine]
            of_name[column] = round(statistics.mean(values), 3)
            of_name[f"{column} sd"] = round(statistics.stdev(values), 3) if len(values) > 1 else ""
        found.append(of_name)
    return found


def write(path: Path, rows: Sequence[Row]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(path)


if __name__ == "__main__":
    _train_one(*sys.argv[1:])
