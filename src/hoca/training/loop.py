"""The training loop.

One process:             hoca train recipes/msvd.yaml
Two on this machine:     torchrun --nproc-per-node 2 -m hoca train recipes/msvd.yaml
Killed, and going on:    hoca train recipes/msvd.yaml --resume

The order of the data, dropout and every update depend on the recipe alone, so a run that was killed and resumed ends
with the same bits, on a CPU, as one that was not.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hoca.data import Batch, Batches
from hoca.errors import UserError
from hoca.metrics import Evaluator
from hoca.progress import say
from hoca.training.ahead import Late, beside
from hoca.training.beginning import Beginning
from hoca.training.build import build_dataset, build_model, build_optimizer, build_vocabulary, fit_detector
from hoca.training.checkpoint import Checkpoint, Checkpoints, write_checkpoint
from hoca.training.distributed import Processes, processes
from hoca.training.evaluation import Search, caption_split
from hoca.training.leaving_out import leave_modalities_out, leave_steps_out
from hoca.training.log import Log
from hoca.training.recipe import Recipe
from hoca.training.reward import RewardObjective
from hoca.training.schedule import learning_rate
from hoca.training.state import State, require_same
from hoca.training.step import autocast, choose_step


def train(recipe: Recipe, *, resume: bool = False) -> Path:
    """Train as the recipe says; returns the run folder, whose best checkpoint is the result."""
    try:
        with processes(recipe.device) as here:
            Trainer(recipe, here, resume=resume).fit()
            here.wait()
            if here.first:
                say(f"the run is in {recipe.run}: hoca evaluate {recipe.run}")
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"the GPU has no room for batch={recipe.batch} with captions={recipe.captions}: lower one of them"
        ) from error
    return Path(recipe.run)


class Trainer:
    def __init__(self, recipe: Recipe, here: Processes, *, resume: bool) -> None:
        self.recipe, self.here = recipe, here
        self.run = Path(recipe.run)
        self.checkpoints = Checkpoints(self.run)
        if not resume and self.checkpoints.newest():
            raise UserError(f"{self.run} holds a run already: add --resume to go on with it, or choose another run=")
        self.dataset = build_dataset(recipe, here)
        self.beginning = Beginning.read(recipe.start) if recipe.start else None
        self.vocabulary = build_vocabulary(recipe, self.dataset, self.beginning)
        self.batches = Batches(
            self.dataset,
            "train",
            self.vocabulary,
            batch=recipe.batch,
            captions=recipe.captions,
            max_words=recipe.max_words,
            seed=recipe.seed,
            rank=here.rank,
            world=here.world,
            workers=recipe.workers,
        )
        references = {video.id: video.captions for video in self.dataset.videos("validation")}
        self.evaluator = Evaluator(references) if references else None
        reward: RewardObjective | None = None
        if recipe.objective == "reward":
            reward = RewardObjective(recipe, self.dataset.videos("train"), self.vocabulary)
        torch.manual_seed(recipe.seed)
        model = build_model(recipe, self.dataset, self.vocabulary, self.beginning)
        if not self.checkpoints.newest():  # which has one
            fit_detector(recipe, self.dataset, model)
        model.to(here.device)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average)) if recipe.average else None
        self.state = State(model, build_optimizer(recipe, model), average, here)
        torch.manual_seed(recipe.seed + 1 + here.rank)  # dropout differs between processes
        if resume:
            self._resume()
        self.step = choose_step(recipe, self.state, self.vocabulary.pad, reward)
        self.log: Log | None = None
        if here.first:
            self.checkpoints.tidy()
            recipe.write(self.run / "recipe.yaml")
            self.vocabulary.save(self.run / "vocabulary.json")
            self.log = Log(self.run, recipe.epochs, len(self.batches))
        self._unchecked: tuple[Late, int, list[str]] | None = None  # of the step before

    def fit(self) -> None:
        progress = self.state.progress
        try:
            if self.log is not None:
                say(self._introduction())
                self.log.start(progress.step, progress.rows)
            while progress.epoch < self.recipe.epochs and not self._out_of_patience():
                self._epoch()
            if self.log is not None:
                self.log.finish(progress.rows)
        finally:
            if self.log is not None:
                self.log.close()

    def _introduction(self) -> str:
        model, dataset = self.state.model, self.dataset
        weights = sum(parameter.numel() for parameter in model.parameters())
        return (
            f"{dataset.name}: {len(dataset.videos('train'))} videos to learn from, {len(self.vocabulary)} words, "
            f"{', '.join(dataset.modalities)}; {self.recipe.model}: {weights:,} weights on {self.here.device}; "
            f"{len(self.batches)} batches an epoch"
        )

    def _epoch(self) -> None:
        progress = self.state.progress
        self.batches.set_epoch(progress.epoch)
        self._begun = time.monotonic() - progress.seconds
        self._summed = torch.tensor(progress.loss, dtype=torch.float64, device=self.here.device)
        self.state.model.train()
        for batch in beside(self.batches.iterate(start=progress.batch), self.here.device):
            self._step(batch)
            if self.recipe.checkpoint_every and progress.step % self.recipe.checkpoint_every == 0:
                self._save()
        self._finish_epoch()

    def _step(self, batch: Batch) -> None:
        progress = self.state.progress
        shown = leave_steps_out(batch, self.recipe.step_dropout)
        shown = leave_modalities_out(shown, self.recipe.modality_dropout)
        summed = self.step(shown, self._learning_rate(progress.step))
        self._check_loss()
        self._unchecked = Late(summed), batch.caption_count, batch.ids
        self._summed += summed
        progress.batch += 1
        progress.step += 1
        progress.captions += batch.global_caption_count

    def _check_loss(self) -> None:
        """Look at the loss of the step before while a GPU computes the present one."""
        if self._unchecked is None:
            return
        summed, captions, ids = self._unchecked
        loss = float(summed)
        if not math.isfinite(loss):
            raise UserError(f"the loss is {loss} at {self._where(ids)}")
        if self.log is not None:
            self.log.advance(self.state.progress.step, loss / max(1, captions))

    def _require_finite(self) -> None:
        """Nothing that is not finite is validated or written."""
        self._check_loss()
        if self._unchecked is not None and not self.state.is_finite():
            raise UserError(f"the weights are no longer finite after {self._where(self._unchecked[2])}")

    def _where(self, ids: list[str]) -> str:
        return (
            f"step {self.state.progress.step}, in the batch of {', '.join(ids)}: look at their features, or train anew "
            f"with a lower learning_rate or a gradient_clip"
        )

    def _finish_epoch(self) -> None:
        self._require_finite()
        progress, recipe = self.state.progress, self.recipe
        loss = float(self.here.total(self._summed)) / progress.captions
        score = self._validate() if (progress.epoch + 1) % recipe.validate_every == 0 else None
        improved = score is not None and (progress.best is None or score > progress.best)
        last = progress.epoch + 1 == recipe.epochs
        if improved:
            progress.best, progress.stale = score, 0
        elif score is not None:
            progress.stale += 1
        if improved or (last and progress.best is None):  # without validation the last weights are the best known
            self._keep(score)
        progress.epoch += 1
        progress.rows.append(
            {
                "epoch": progress.epoch,
                "step": progress.step,
                "loss": loss,
                "CIDEr": score,
                "learning_rate": self._learning_rate(progress.step - 1),
                "seconds": round(time.monotonic() - self._begun, 3),
            }
        )
        progress.begin_epoch()
        self._begun = time.monotonic()
        self._summed.zero_()
        self._save()
        if self.log is not None:
            self.log.end_epoch(progress.rows, improved=improved)
            if self._out_of_patience():
                say(f"no better validation CIDEr for {progress.stale} validations: stopped")

    def _out_of_patience(self) -> bool:
        return bool(self.recipe.patience) and self.state.progress.stale >= self.recipe.patience

    def _validate(self) -> float | None:
        if self.evaluator is None:
            return None
        greedily = replace(Search.of(self.recipe), beam=1)
        with autocast(self.recipe, self.here):
            captions = caption_split(self.state.kept, self.dataset, "validation", greedily, self.here)
        return self.evaluator.evaluate(captions, metrics=("CIDEr",)).corpus["CIDEr"]

    def _learning_rate(self, step: int) -> float:
        return learning_rate(self.recipe, step, self.recipe.epochs * len(self.batches))

    def _keep(self, score: float | None) -> None:
        if self.here.first:
            kept = Checkpoint(self.state.kept_weights(), self._facts() | {"score": score})
            write_checkpoint(self.checkpoints.best, kept)

    def _save(self) -> None:
        self._require_finite()
        self.state.progress.loss = float(self._summed)
        self.state.progress.seconds = time.monotonic() - self._begun
        checkpoint = self.state.capture(self._facts())
        if self.here.first:
            self.checkpoints.write(self.state.progress.step, checkpoint)

    def _resume(self) -> None:
        checkpoint = self.checkpoints.read(say if self.here.first else None)
        if checkpoint is not None:
            require_same(checkpoint.facts, self._facts())
            self.state.restore(checkpoint)
        if self.here.first:
            progress = self.state.progress
            say(
                f"going on after epoch {progress.epoch}, step {progress.step}"
                if checkpoint is not None
                else f"{self.run} has no checkpoint yet: starting from the beginning"
            )

    def _facts(self) -> dict[str, Any]:
        """What a checkpoint says besides its weights: enough to caption, and to know whether a run can go on."""
        return {
            "config": self.state.model.config.to_json(),
            "vocabulary": self.vocabulary.words,
            "specification": (self.beginning.specification if self.beginning else {}) | self.dataset.specification,
            "recipe": asdict(self.recipe),
        }
