"""Train as a recipe says, in one stage or several.

One process:             hoca train recipes/msvd.yaml
Two on this machine:     torchrun --nproc-per-node 2 -m hoca train recipes/msvd.yaml
Killed, and resumed:     hoca train recipes/msvd.yaml --resume

Each stage of a recipe is a run of its own in a folder within the run's, and begins from the best checkpoint of the one
before it. At the end the run's own folder has the best checkpoint of the last stage, and the metrics of all of them.
"""

from __future__ import annotations

import csv
import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from hoca.checkpoint import Checkpoints
from hoca.data import FolderDataset
from hoca.distributed import Distributed, processes
from hoca.errors import UserError
from hoca.files import locked, replacing
from hoca.progress import say
from hoca.training.loop import Trainer
from hoca.training.recipe import Recipe


def train(recipe: Recipe, *, resume: bool = False, dataset: FolderDataset | None = None) -> Path:
    """Train as the recipe says; returns the run folder, whose best checkpoint is the result.

    dataset: the recipe's, loaded already; a process that trains many runs on it reads its files once.
    """
    try:
        with processes(recipe.device) as dist, _locked(Path(recipe.run), dist):
            _train_stages(recipe, dist, dataset, resume=resume)
            dist.wait()
            if dist.is_main:
                say(f"the run is in {recipe.run}: hoca evaluate {recipe.run}")
    except torch.OutOfMemoryError as error:
        sizes = f"batch_size={recipe.train.batch_size} with captions_per_video={recipe.train.captions_per_video}"
        raise UserError(f"the GPU has no room for {sizes}: lower one of them") from error
    return Path(recipe.run)


def _train_stages(recipe: Recipe, dist: Distributed, dataset: FolderDataset | None, *, resume: bool) -> None:
    stages = recipe.in_stages()
    if len(stages) == 1 and not recipe.stages:
        Trainer(recipe, dist, resume=resume, dataset=dataset).fit()
        return
    folders = [Path(stage.run) for stage in stages]
    if not resume and any(Checkpoints(folder).newest() for folder in (Path(recipe.run), *folders)):
        raise UserError(f"{recipe.run} holds a run already: add --resume to continue it, or choose another run=")
    for number, stage in enumerate(stages, start=1):
        if dist.is_main:
            say(f"stage {number} of {len(stages)}: {Path(stage.run).name}")
        with _locked(Path(stage.run), dist):
            Trainer(stage, dist, resume=resume and bool(Checkpoints(Path(stage.run)).newest())).fit()
        dist.wait()  # the next one begins from what the main process has written
    if dist.is_main:
        _gather(recipe, folders)


def _locked(run: Path, dist: Distributed) -> AbstractContextManager[None]:
    """Two trainings in one folder would overwrite each other's checkpoints. The main process alone writes there."""
    return locked(run, "run=") if dist.is_main else nullcontext()


def _gather(recipe: Recipe, folders: list[Path]) -> None:
    """Put the result of the last stage, and the history of all, where a run of one stage has them."""
    run = Path(recipe.run)
    recipe.write(run / "recipe.yaml")
    for source, target in (
        (Checkpoints(folders[-1]).best, Checkpoints(run).best),
        (folders[-1] / "vocabulary.json", run / "vocabulary.json"),
    ):
        with replacing(target) as temporary:
            shutil.copyfile(source, temporary)
    rows = [row | {"stage": folder.name} for folder in folders for row in _rows(folder / "metrics.csv")]
    columns = ["stage", *dict.fromkeys(name for row in rows for name in row if name != "stage")]
    with replacing(run / "metrics.csv") as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


def _rows(table: Path) -> list[dict[str, str]]:
    with open(table, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
