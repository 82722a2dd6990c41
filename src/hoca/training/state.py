"""All that training changes, as a checkpoint and back: weights, optimizer, average, random generators, progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from hoca.checkpoint import Checkpoint
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.models import CaptionModel, entry
from hoca.options import make
from hoca.training.log import Row
from hoca.training.optimizer import kept_of_a_weight
from hoca.training.recipe import SECTIONS, Recipe

FREE_ON_RESUME = {
    *("run", "device", "train.epochs", "train.patience", "train.workers", "train.checkpoint_every"),
    *("train.cuda_graph", "search.beam", "search.length_penalty"),
}

EDITED = "the newest checkpoint's progress was edited (delete it, or choose another run=)"


@dataclass
class RunProgress:
    """How far the run is."""

    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of the epoch in progress
    step: int = 0  # finished batches of all epochs
    losses: dict[str, float] = field(
        default_factory=dict
    )  # of the epoch in progress, summed over this process's captions
    captions: int = 0  # of all processes in the epoch in progress
    seconds: float = 0.0  # spent in the epoch in progress
    best: float | None = None  # validation CIDEr
    stale: int = 0  # validations since the best
    rows: list[Row] = field(default_factory=list)  # one per finished epoch

    def begin_epoch(self) -> None:
        self.batch, self.losses, self.captions, self.seconds = 0, {}, 0, 0.0


@dataclass
class State:
    model: CaptionModel
    optimizer: torch.optim.Optimizer
    average: AveragedModel | None
    dist: Distributed
    progress: RunProgress = field(default_factory=RunProgress)

    @property
    def kept(self) -> CaptionModel:
        """The model that is validated and kept: the average of the weights where there is one."""
        kept = self.model if self.average is None else self.average.module
        assert isinstance(kept, CaptionModel)
        return kept

    def kept_weights(self) -> dict[str, Tensor]:
        return _named("model", self.kept.state_dict())

    def is_finite(self) -> bool:
        values = [*self._weights().values(), *self._optimizer_state().values()]
        return all(bool(torch.isfinite(value).all()) for value in values)

    def capture(self, facts: Mapping[str, Any]) -> Checkpoint:
        """All of it as one checkpoint; every process must call this."""
        parts = self.dist.gather((_random_state(self.dist.device), self.progress.losses))
        tensors = self._weights() | self._optimizer_state()
        for rank, (random, _) in enumerate(parts):
            tensors |= _named(f"random.{rank}", random)
        return Checkpoint(
            tensors, {**facts, "progress": asdict(self.progress), "losses": [losses for _, losses in parts]}
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        self.model.load_state_dict(checkpoint.part("model"))
        if self.average is not None:
            self.average.load_state_dict(checkpoint.part("average"))
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in checkpoint.part("optimizer").items():
            number, key = name.split(".")
            states.setdefault(int(number), {})[key] = value
        names = {"step", *kept_of_a_weight(self.optimizer)}
        if any(state.keys() != names for state in states.values()):
            raise ValueError("the optimizer's state is not whole")
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": states, "param_groups": groups})
        self.progress = make(RunProgress, (EDITED, checkpoint.facts["progress"]))
        losses, rank = checkpoint.facts["losses"], self.dist.rank
        if len(losses) == self.dist.world:
            self.progress.losses = losses[rank]
            _set_random_state(checkpoint.part(f"random.{rank}"), self.dist.device)
        else:  # begun with another number of processes: the loss stays exact, dropout continues with new numbers
            whole = {name: sum(each[name] for each in losses) for name in losses[0]}
            # All have the same names: at an epoch's end they are summed over the processes one by one.
            self.progress.losses = whole if self.dist.is_main else dict.fromkeys(whole, 0.0)

    def _weights(self) -> dict[str, Tensor]:
        weights = _named("model", self.model.state_dict())
        return weights if self.average is None else weights | _named("average", self.average.state_dict())

    def _optimizer_state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= _named(f"optimizer.{number}", state)
        return tensors


def require_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume a run whose recipe, captions, features or vectors have changed since."""
    run, data = now["recipe"]["run"], now["recipe"]["data"]["folder"]
    if before.get("progress", {}).keys() != asdict(RunProgress()).keys():
        raise UserError(
            f"the newest checkpoint in {run} is not one to resume (a copy of another one, or of another version of "
            f"hoca): delete it, or choose another run="
        )
    # A run begun before a key existed did what the key does by default.
    begun, wanted = _flat(Recipe().to_json()) | _flat(before["recipe"]), _flat(now["recipe"])
    for key, value in wanted.items():
        if key not in FREE_ON_RESUME and begun[key] != value:
            raise UserError(
                f"{run} was begun with {key}={begun[key]}, now it is {value}: resume with the same recipe, or choose "
                f"another run="
            )
    if before["vocabulary"] != now["vocabulary"]:
        raise UserError(
            f"the checkpoint in {run} has another vocabulary than the captions of {data}, which have changed since: "
            f"put them back, or choose another run="
        )
    models = [entry(facts["model"]).model for facts in (before, now)]
    was, becomes = (
        asdict(model.Config.from_json(facts["config"])) for model, facts in zip(models, (before, now), strict=True)
    )
    # Names of one class whose configurations are the same are the same model.
    if before["model"] != now["model"] and (models[0] is not models[1] or was != becomes):
        raise UserError(f"{run} was begun with model={before['model']}, now it is {now['model']}: choose another run=")
    for key in was:
        if was[key] != becomes[key]:
            raise UserError(
                f"the model in {run} has {key}={was[key]}; the recipe, the features of {data} or the vectors now ask "
                f"for {becomes[key]}: put them back, or choose another run="
            )


def _flat(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """`section.key` → value; a model's options are compared in its configuration."""
    keys = {key: value for key, value in recipe.items() if key not in SECTIONS}
    inner = {
        f"{name}.{key}": value for name in SECTIONS if name != "model" for key, value in recipe.get(name, {}).items()
    }
    return keys | inner


def _named(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{start}.{key}": value for key, value in tensors.items()}


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def _set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
