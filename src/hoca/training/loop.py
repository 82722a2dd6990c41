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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hoca.data import Batch, Batches, FolderDataset, Vocabulary
from hoca.data.vectors import category_vectors, load_vectors
from hoca.errors import UserError
from hoca.metrics import Evaluator
from hoca.models import Captioner, create
from hoca.progress import say
from hoca.training.checkpoint import Checkpoint, Checkpoints, write_checkpoint
from hoca.training.distributed import Processes, processes
from hoca.training.evaluation import Search, caption_split
from hoca.training.log import Log, Row
from hoca.training.objective import caption_loss
from hoca.training.recipe import Recipe

FREE_ON_RESUME = {"epochs", "patience", "workers", "device", "checkpoint_every", "run", "beam", "length_penalty"}


def train(recipe: Recipe, *, resume: bool = False) -> Path:
    """Train as the recipe says; returns the run folder, whose best checkpoint is the result."""
    with processes(recipe.device) as here:
        trainer = Trainer(recipe, here, resume=resume)
        trainer.fit()
        here.wait()
    return Path(recipe.run)


@dataclass
class Progress:
    """How far the run is: all of it goes into a checkpoint."""

    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of the epoch in progress
    step: int = 0
    loss: float = 0.0  # summed over the captions of the epoch in progress
    captions: int = 0
    seconds: float = 0.0  # spent in the epoch in progress
    best: float | None = None  # validation CIDEr
    stale: int = 0  # epochs since the best
    stopped: bool = False
    rows: list[Row] = field(default_factory=list)


class Trainer:
    def __init__(self, recipe: Recipe, here: Processes, *, resume: bool) -> None:
        self.recipe, self.here = recipe, here
        self.run = Path(recipe.run)
        self.checkpoints = Checkpoints(self.run)
        if not resume and self.checkpoints.newest():
            raise UserError(f"{self.run} holds a run already: add --resume to go on with it, or choose another run=")
        self.dataset = FolderDataset(
            recipe.data,
            modalities=recipe.modalities or None,
            features=recipe.features,
            on_problem=recipe.on_problem,
            report=say if here.first else None,
        ).preload(device="cpu" if recipe.workers else here.device)
        videos = self.dataset.videos("train")
        self.vocabulary = Vocabulary.build((c for video in videos for c in video.captions), recipe.minimum_count)
        self.references = {video.id: video.captions for video in self.dataset.videos("validation")}
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
        torch.manual_seed(recipe.seed)
        self.model = _build(recipe, self.dataset, self.vocabulary).to(here.device)
        self.wrapped = here.wrap(self.model)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            fused=here.device.type == "cuda",
        )
        self.average = (
            AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average)) if recipe.average else None
        )
        torch.manual_seed(recipe.seed + 1 + here.rank)  # dropout differs between processes
        self.progress = Progress()
        self._unchecked: tuple[Tensor, list[str]] | None = None
        if resume:
            self._restore()
        self.log: Log | None = None
        if here.first:
            recipe.write(self.run / "recipe.yaml")
            self.vocabulary.save(self.run / "vocabulary.json")
            self.log = Log(self.run, recipe.epochs, purge=self.progress.step)
        self._evaluator = Evaluator(self.references) if self.references else None

    def fit(self) -> None:
        try:
            while self.progress.epoch < self.recipe.epochs and not self.progress.stopped:
                self._epoch()
        finally:
            if self.log is not None:
                self.log.close()

    def _epoch(self) -> None:
        progress = self.progress
        self.batches.set_epoch(progress.epoch)
        if self.log is not None:
            self.log.begin(progress.epoch, progress.batch, len(self.batches))
        self._begun = time.monotonic() - progress.seconds
        self._summed = torch.tensor(progress.loss, dtype=torch.float64, device=self.here.device)
        self.wrapped.train()
        for batch in self.batches.iterate(start=progress.batch):
            self._step(batch)
            if self.recipe.checkpoint_every and progress.step % self.recipe.checkpoint_every == 0:
                self._save()
        self._finish_epoch()

    def _step(self, batch: Batch) -> None:
        batch = batch.to(self.here.device, non_blocking=True)
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        with self._autocast():
            logits = self.wrapped(batch.features, batch.lengths, batch.words[:, :, :-1], batch.category)
            summed = caption_loss(logits, batch.words, self.vocabulary.pad, self.recipe.label_smoothing)
        # Gradients are averaged over the processes: times their number, they are those of the global batch.
        loss = summed * self.here.world / batch.global_caption_count
        self._require_finite()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.recipe.gradient_clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.gradient_clip)
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.model)
        self._unchecked = summed.detach(), batch.ids
        self._summed += summed.detach()
        self.progress.batch += 1
        self.progress.step += 1
        self.progress.captions += batch.global_caption_count
        if self.log is not None:
            mean = summed.item() / max(1, batch.caption_count) if self.here.device.type == "cpu" else None
            self.log.advance(mean)

    def _require_finite(self) -> None:
        """Look at the loss of the step before, which a GPU has finished by now, so that nothing waits for it."""
        if self._unchecked is None:
            return
        loss, ids = self._unchecked
        self._unchecked = None
        if not math.isfinite(loss.item()):
            raise UserError(
                f"the loss is {loss.item()} at step {self.progress.step - 1}, in the batch of "
                f"{', '.join(ids)}: look at their features, or lower learning_rate"
            )

    def _finish_epoch(self) -> None:
        self._require_finite()
        progress = self.progress
        loss = float(self.here.total(self._summed))
        score = self._validate() if (progress.epoch + 1) % self.recipe.validate_every == 0 else None
        improved = score is not None and (progress.best is None or score > progress.best)
        last = progress.epoch + 1 == self.recipe.epochs
        if improved or (self._evaluator is None and last):
            progress.best, progress.stale = score, 0
            if self.here.first:
                write_checkpoint(self.checkpoints.best, Checkpoint(self._kept_weights(), self._facts(score=score)))
        elif score is not None:
            progress.stale += 1
        progress.stopped = bool(self.recipe.patience) and progress.stale >= self.recipe.patience
        progress.rows.append(
            {
                "epoch": progress.epoch + 1,
                "step": progress.step,
                "loss": loss / progress.captions,
                "CIDEr": score,
                "learning_rate": self._learning_rate(),
                "seconds": round(time.monotonic() - self._begun, 3),
            }
        )
        progress.epoch += 1
        progress.batch, progress.loss, progress.captions, progress.seconds = 0, 0.0, 0, 0.0
        self._summed.zero_()
        self._begun = time.monotonic()
        self._save()
        if self.log is not None:
            self.log.end(progress.rows, improved=improved)
            if progress.stopped:
                say(f"no better validation CIDEr for {progress.stale} epochs: stopped")

    def _validate(self) -> float | None:
        if self._evaluator is None:
            return None
        with self._autocast():
            captions = caption_split(self._kept(), self.dataset, "validation", Search(beam=1), self.here)
        return self._evaluator.evaluate(captions, metrics=("CIDEr",)).corpus["CIDEr"]

    def _kept(self) -> Captioner:
        """The model that is validated and kept: the average of the weights where there is one."""
        kept = self.model if self.average is None else self.average.module
        assert isinstance(kept, Captioner)
        return kept

    def _kept_weights(self) -> dict[str, Tensor]:
        return {f"model.{key}": value for key, value in self._kept().state_dict().items()}

    def _learning_rate(self) -> float:
        step, recipe = self.progress.step, self.recipe
        rise = min(1.0, (step + 1) / recipe.warmup) if recipe.warmup else 1.0
        if recipe.schedule == "constant":
            return recipe.learning_rate * rise
        total = recipe.epochs * len(self.batches)
        return recipe.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.here.device.type, torch.bfloat16, enabled=self.recipe.precision == "bf16")

    def _facts(self, **more: Any) -> dict[str, Any]:
        return {
            "config": self.model.config.to_json(),
            "vocabulary": self.vocabulary.words,
            "specification": self.dataset.specification,
            "recipe": asdict(self.recipe),
            **more,
        }

    def _save(self) -> None:
        self._require_finite()
        self.progress.loss = float(self._summed)
        self.progress.seconds = time.monotonic() - self._begun
        states = self.here.gather((_random_state(self.here.device), self.progress.loss))
        if not self.here.first:
            return
        tensors = {f"model.{key}": value for key, value in self.model.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{key}": torch.as_tensor(value) for key, value in state.items()}
        if self.average is not None:
            tensors |= {f"average.{key}": value for key, value in self.average.state_dict().items()}
        for rank, (random, _) in enumerate(states):
            tensors |= {f"random.{rank}.{key}": value for key, value in random.items()}
        facts = self._facts(progress=asdict(self.progress), losses=[loss for _, loss in states])
        self.checkpoints.write(self.progress.step, Checkpoint(tensors, facts))

    def _restore(self) -> None:
        checkpoint = self.checkpoints.read(say)
        if checkpoint is None:
            return
        facts = checkpoint.facts
        for key, value in asdict(self.recipe).items():
            if key not in FREE_ON_RESUME and facts["recipe"].get(key) != value:
                raise UserError(
                    f"{self.run} was begun with {key}={facts['recipe'].get(key)}, now it is {value}: "
                    f"go on with the same recipe, or choose another run="
                )
        if facts["vocabulary"] != self.vocabulary.words:
            raise UserError(
                f"the checkpoint in {self.run} has another vocabulary than the captions of {self.recipe.data}, which "
                f"have changed since: put them back, or choose another run="
            )
        self.model.load_state_dict(checkpoint.part("model"))
        fresh = self.optimizer.state_dict()
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in checkpoint.part("optimizer").items():
            number, key = name.split(".")
            states.setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict({"state": states, "param_groups": fresh["param_groups"]})
        if self.average is not None:
            self.average.load_state_dict(checkpoint.part("average"))
        self.progress = Progress(**facts["progress"])
        if self.here.rank < len(facts["losses"]):
            self.progress.loss = facts["losses"][self.here.rank]
            _set_random_state(checkpoint.part(f"random.{self.here.rank}"), self.here.device)
        if self.here.first:
            say(f"going on after epoch {self.progress.epoch}, step {self.progress.step}")


def _build(recipe: Recipe, dataset: FolderDataset, vocabulary: Vocabulary) -> Captioner:
    """The recipe's model for the dataset's features, with word and category vectors in place."""
    options = recipe.model_options()
    words = load_vectors(recipe.vectors, vocabulary.tokens) if recipe.vectors else None
    if words is not None:
        options["embedding"] = words[0].shape[1]
    names = dataset.categories
    categories = category_vectors(names, recipe.category_vectors) if recipe.category_vectors and names else None
    if categories is not None:
        options |= {"categories": names, "category_width": categories.shape[1]}
    model = create(recipe.model, dataset.widths, vocabulary, **options)
    if words is not None:
        model.decoder.set_word_vectors(*words)
    if categories is not None:
        model.start.vectors.copy_(categories)
    return model


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def _set_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
