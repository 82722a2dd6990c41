"""The training loop of one stage.

The order of the data, dropout and every update depend on the recipe alone, so a run that was killed and resumed ends
with the same bits, on a CPU, as one that was not.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hoca.checkpoint import Checkpoint, Checkpoints, model_facts, write_checkpoint
from hoca.data import Batch, Batches, FolderDataset, write_vocabulary
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.evaluation import caption_split
from hoca.metrics import Evaluator
from hoca.progress import say
from hoca.threads import threads_for, use_threads
from hoca.training.augment import drop_modalities
from hoca.training.build import (
    build_dataset,
    build_model,
    build_vocabulary,
    freeze,
    prepare_model,
)
from hoca.training.gradients import gradient_ratios
from hoca.training.log import Log
from hoca.training.objectives import OBJECTIVES
from hoca.training.optimizer import build_optimizer
from hoca.training.overlap import AsyncScalars, prefetch
from hoca.training.pretrained import Pretrained
from hoca.training.recipe import Recipe
from hoca.training.schedule import learning_rate
from hoca.training.state import State, require_same
from hoca.training.step import autocast, choose_step


class Trainer:
    """One stage of training, in a run folder of its own."""

    def __init__(
        self, recipe: Recipe, dist: Distributed, *, resume: bool, dataset: FolderDataset | None = None
    ) -> None:
        self.recipe, self.settings, self.dist = recipe, recipe.train, dist
        self.run = Path(recipe.run)
        self.checkpoints = Checkpoints(self.run)
        if not resume and self.checkpoints.newest():
            raise UserError(f"{self.run} holds a run already: add --resume to continue it, or choose another run=")
        self.dataset = dataset or build_dataset(recipe, dist)
        self.pretrained = Pretrained.read(recipe.init_from) if recipe.init_from else None
        self.vocabulary = build_vocabulary(recipe, self.dataset, self.pretrained)
        references = {video.id: video.captions for video in self.dataset.videos("validation")}
        self.evaluator = Evaluator(references) if references else None
        objective = OBJECTIVES[self.settings.objective](
            self.settings,
            recipe.search,
            self.vocabulary,
            {video.id: video.captions for video in self.dataset.videos("train")},
        )
        torch.manual_seed(recipe.seed)
        model = build_model(recipe, self.dataset, self.vocabulary, self.pretrained)
        if not self.checkpoints.newest():  # a resumed run restores what was prepared
            prepare_model(recipe, self.dataset, model)
        freeze(model, self.settings.parts)
        model.to(dist.device)
        decay = self.settings.ema_decay
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay)) if decay else None
        self.state = State(model, build_optimizer(recipe.train, model), average, dist)
        torch.manual_seed(recipe.seed + 1 + dist.rank)  # dropout differs between processes
        if resume:
            self._resume()
        self.batches = Batches(
            self.dataset,
            "train",
            self.vocabulary,
            batch_size=self.settings.batch_size,
            captions_per_video=self.settings.captions_per_video,
            max_words=recipe.data.max_words,
            seed=recipe.seed,
            rank=dist.rank,
            world=dist.world,
            workers=self.settings.workers,
            weights=objective.caption_weights(),
            targets=model.targets,
        )
        self.step = choose_step(self.settings, self.state, objective)
        self.log: Log | None = None
        if dist.is_main:
            self.checkpoints.tidy()
            recipe.write(self.run / "recipe.yaml")
            write_vocabulary(self.vocabulary, self.run / "vocabulary.json")
            self.log = Log(self.run, self.settings.epochs, len(self.batches))
        self._unchecked: tuple[list[str], AsyncScalars, int, list[str]] | None = None  # of the step before

    def fit(self) -> None:
        with use_threads(self._threads()):
            self._fit()

    def _threads(self) -> int:
        """By the weights and the captions in a batch, whatever else the machine does: a resumed run has as many."""
        captions = sum(len(video.captions) for video in self.batches.videos)
        weights = sum(parameter.numel() for parameter in self.state.model.parameters())
        return threads_for(weights * captions // max(1, len(self.batches) * self.dist.world))

    def _fit(self) -> None:
        progress = self.state.progress
        try:
            if self.log is not None:
                say(self._introduction())
                self.log.start(progress.step, progress.rows)
            while progress.epoch < self.settings.epochs and not self._out_of_patience():
                self._epoch()
            if self.log is not None:
                self.log.finish(progress.rows)
        finally:
            if self.log is not None:
                self.log.close()

    def _introduction(self) -> str:
        model, dataset = self.state.model, self.dataset
        weights = sum(parameter.numel() for parameter in model.parameters())
        threads = torch.get_num_threads()
        place = (
            f"{self.dist.device}" if self.dist.device.type != "cpu" else f"cpu, {threads} thread{'s'[: threads != 1]}"
        )
        return (
            f"{dataset.name}: {len(dataset.videos('train'))} videos to learn from, {len(self.vocabulary)} words, "
            f"{', '.join(dataset.modalities)}; {model.name}: {weights:,} weights on {place}; "
            f"{len(self.batches)} batches an epoch"
        )

    def _epoch(self) -> None:
        progress = self.state.progress
        self.batches.set_epoch(progress.epoch)
        self._begun = time.monotonic() - progress.seconds
        self._summed = {
            name: torch.tensor(value, dtype=torch.float64, device=self.dist.device)
            for name, value in progress.losses.items()
        }
        self.state.model.train()
        for batch in prefetch(self.batches.iterate(start=progress.batch), self.dist.device):
            self._step(batch)
            if self.settings.checkpoint_every and progress.step % self.settings.checkpoint_every == 0:
                self._save()
        self._finish_epoch()

    def _step(self, batch: Batch) -> None:
        progress = self.state.progress
        shown = drop_modalities(batch, self.settings.modality_dropout)
        losses = self.step(shown, self._learning_rate(progress.step))
        self._check_loss()
        self._unchecked = list(losses), AsyncScalars(torch.stack(list(losses.values()))), batch.caption_count, batch.ids
        for name, loss in losses.items():
            if name not in self._summed:
                self._summed[name] = torch.zeros((), dtype=torch.float64, device=self.dist.device)
            self._summed[name] += loss
        progress.batch += 1
        progress.step += 1
        progress.captions += batch.global_caption_count

    def _check_loss(self) -> None:
        """Look at the loss of the step before while a GPU computes the present one."""
        if self._unchecked is None:
            return
        names, values, captions, ids = self._unchecked
        losses = dict(zip(names, values.tolist(), strict=True))
        if not math.isfinite(losses["loss"]):
            raise UserError(f"the loss is {losses['loss']} at {self._where(ids)}")
        if self.log is not None:
            each = {name: loss / max(1, captions) for name, loss in losses.items()}
            self.log.advance(self.state.progress.step, each)

    def _require_finite(self) -> None:
        """Nothing that is not finite is validated or written."""
        self._check_loss()
        if self._unchecked is not None and not self.state.is_finite():
            raise UserError(f"the weights are no longer finite after {self._where(self._unchecked[3])}")

    def _where(self, ids: list[str]) -> str:
        return (
            f"step {self.state.progress.step}, in the batch of {', '.join(ids)}: look at their features, or train anew "
            f"with a lower learning_rate or a gradient_clip"
        )

    def _finish_epoch(self) -> None:
        self._require_finite()
        progress, settings = self.state.progress, self.settings
        losses = {name: float(self.dist.total(each)) / progress.captions for name, each in self._summed.items()}
        several = len(losses) > 1  # the words' and a model's own
        ratios = gradient_ratios(self.recipe, self.state, self.batches[0]) if several else {}
        score = self._validate() if (progress.epoch + 1) % settings.validate_every == 0 else None
        improved = score is not None and (progress.best is None or score > progress.best)
        last = progress.epoch + 1 == settings.epochs
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
                **losses,
                **ratios,
                "CIDEr": score,
                "learning_rate": self._learning_rate(progress.step - 1),
                "seconds": round(time.monotonic() - self._begun, 3),
            }
        )
        progress.begin_epoch()
        self._begun = time.monotonic()
        self._summed = {}
        self._save()
        if self.log is not None:
            self.log.end_epoch(progress.rows, improved=improved)
            if self._out_of_patience():
                say(f"no better validation CIDEr for {progress.stale} validations: stopped")

    def _out_of_patience(self) -> bool:
        return bool(self.settings.patience) and self.state.progress.stale >= self.settings.patience

    def _validate(self) -> float | None:
        if self.evaluator is None:
            return None
        greedily = replace(self.recipe.search, beam=1)
        with autocast(self.settings, self.dist):
            captions = caption_split(self.state.kept, self.dataset, "validation", greedily, self.dist)
        return self.evaluator.evaluate(captions, metrics=("CIDEr",)).corpus["CIDEr"]

    def _learning_rate(self, step: int) -> float:
        return learning_rate(self.settings, step, self.settings.epochs * len(self.batches))

    def _keep(self, score: float | None) -> None:
        if self.dist.is_main:
            kept = Checkpoint(self.state.kept_weights(), self._facts() | {"score": score})
            write_checkpoint(self.checkpoints.best, kept)

    def _save(self) -> None:
        self._require_finite()
        self.state.progress.losses = {name: float(each) for name, each in self._summed.items()}
        self.state.progress.seconds = time.monotonic() - self._begun
        checkpoint = self.state.capture(self._facts())
        if self.dist.is_main:
            self.checkpoints.write(self.state.progress.step, checkpoint)

    def _resume(self) -> None:
        checkpoint = self.checkpoints.read(say if self.dist.is_main else None)
        if checkpoint is not None:
            try:
                require_same(checkpoint.facts, self._facts())
                self.state.restore(checkpoint)
            except (UserError, torch.OutOfMemoryError):
                raise
            except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
                raise UserError(
                    f"the newest checkpoint in {self.run} lacks what a run resumes from, it was edited or mixed up: "
                    f"delete it, or choose another run="
                ) from error
        if self.dist.is_main:
            progress = self.state.progress
            say(
                f"resuming after epoch {progress.epoch}, step {progress.step}"
                if checkpoint is not None
                else f"{self.run} has no checkpoint yet: starting from the beginning"
            )

    def _facts(self) -> dict[str, Any]:
        """What a checkpoint says besides its weights: enough to caption, and to know whether a run can be resumed."""
        specification = (self.pretrained.specification if self.pretrained else {}) | self.dataset.specification
        return model_facts(self.state.model, specification, self.recipe.search) | {"recipe": self.recipe.to_json()}
