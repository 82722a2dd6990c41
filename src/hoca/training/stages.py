"""Train as a recipe says, in one stage or several.

One process:             hoca train msvd
Two on this machine:     torchrun --nproc-per-node 2 -m hoca train msvd
Killed, and resumed:     hoca train msvd --resume

Each stage of a recipe is a run of its own in a folder within the run's, and begins from the best checkpoint of the one
before it. At the end the run's own folder has the best checkpoint of the last stage, and the metrics of all of them.
"""

from __future__ import annotations

import csv
import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from hoca.checkpoint import Checkpoints
from hoca.data import FolderDataset
from hoca.distributed import Distributed, processes
from hoca.errors import UserError
from hoca.files import locked, replacing
from hoca.progress import say
from hoca.training.loop import Trainer
from hoca.training.own_videos import with_features
from hoca.training.recipe import Recipe, read_recipe


def train(
    recipe: Recipe | Path | str,
    *,
    resume: bool = False,
    dataset: FolderDataset | None = None,
    **overrides: Any,
) -> Path:
    """Train as a recipe says; returns the run folder, whose best checkpoint is the result: `hoca.load(run)`.

    recipe: a name that `hoca recipes list` prints, or a YAML file; then `overrides` change its keys, as in
    `train("finetune", data="captions.csv", videos="clips", epochs=2)`; a key of a section may be written
    `**{"model.hidden": 256}`. A `Recipe` is taken as it is. resume: continue the run in the recipe's folder. dataset:
    the recipe's, loaded already; a process that trains many runs on it reads its files once.
    """
    if not isinstance(recipe, Recipe):
        plain = {key: os.fspath(value) if isinstance(value, Path) else value for key, value in overrides.items()}
        recipe = read_recipe(recipe, plain)
    elif overrides:
        raise UserError(f"{', '.join(overrides)}: a Recipe has its values already, use dataclasses.replace")
    recipe = with_features(recipe)
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
