"""All that training changes, as a checkpoint and back: weights, optimizer, average, random generators, progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from hoca.errors import UserError
from hoca.models import Captioner, Config
from hoca.training.checkpoint import Checkpoint
from hoca.training.distributed import Processes
from hoca.training.log import Row
from hoca.training.recipe import Recipe

FREE_ON_RESUME = {
    "epochs",
    "patience",
    "workers",
    "device",
    "checkpoint_every",
    "run",
    "beam",
    "length_penalty",
    "step",
}


@dataclass
class Progress:
    """How far the run is."""

    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of the epoch in progress
    step: int = 0  # finished batches of all epochs
    loss: float = 0.0  # summed over this process's captions of the epoch in progress
    captions: int = 0  # of all processes in the epoch in progress
    seconds: float = 0.0  # spent in the epoch in progress
    best: float | None = None  # validation CIDEr
    stale: int = 0  # validations since the best
    rows: list[Row] = field(default_factory=list)  # one per finished epoch

    def begin_epoch(self) -> None:
        self.batch, self.loss, self.captions, self.seconds = 0, 0.0, 0, 0.0


@dataclass
class State:
    model: Captioner
    optimizer: torch.optim.Optimizer
    average: AveragedModel | None
    here: Processes
    progress: Progress = field(default_factory=Progress)

    @property
    def kept(self) -> Captioner:
        """The model that is validated and kept: the average of the weights where there is one."""
        kept = self.model if self.average is None else self.average.module
        assert isinstance(kept, Captioner)
        return kept

    def kept_weights(self) -> dict[str, Tensor]:
        return _named("model", self.kept.state_dict())

    def is_finite(self) -> bool:
        values = [*self._weights().values(), *self._optimizer_state().values()]
        return all(bool(torch.isfinite(value).all()) for value in values)

    def capture(self, facts: Mapping[str, Any]) -> Checkpoint:
        """All of it as one checkpoint; every process must call this."""
        parts = self.here.gather((_random_state(self.here.device), self.progress.loss))
        tensors = self._weights() | self._optimizer_state()
        for rank, (random, _) in enumerate(parts):
            tensors |= _named(f"random.{rank}", random)
        return Checkpoint(tensors, {**facts, "progress": asdict(self.progress), "losses": [loss for _, loss in parts]})

    def restore(self, checkpoint: Checkpoint) -> None:
        self.model.load_state_dict(checkpoint.part("model"))
        if self.average is not None:
            self.average.load_state_dict(checkpoint.part("average"))
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in checkpoint.part("optimizer").items():
            number, key = name.split(".")
            states.setdefault(int(number), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": states, "param_groups": groups})
        self.progress = Progress(**checkpoint.facts["progress"])
        losses, rank = checkpoint.facts["losses"], self.here.rank
        if len(losses) == self.here.world:
            self.progress.loss = losses[rank]
            _set_random_state(checkpoint.part(f"random.{rank}"), self.here.device)
        else:  # begun with another number of processes: the loss stays exact, dropout goes on with new numbers
            self.progress.loss = sum(losses) if self.here.first else 0.0

    def _weights(self) -> dict[str, Tensor]:
        weights = _named("model", self.model.state_dict())
        return weights if self.average is None else weights | _named("average", self.average.state_dict())

    def _optimizer_state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= _named(f"optimizer.{number}", state)
        return tensors


def require_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a run whose recipe, captions, features or vectors have changed since."""
    run, data = now["recipe"]["run"], now["recipe"]["data"]
    if before.get("progress", {}).keys() != asdict(Progress()).keys():
        raise UserError(
            f"the newest checkpoint in {run} is not one to go on from (a copy of another one, or of another version of "
            f"hoca): delete it, or choose another run="
        )
    begun = asdict(Recipe()) | before["recipe"]  # a run begun before a key existed did what the key does by default
    for key, value in now["recipe"].items():
        if key not in FREE_ON_RESUME and begun[key] != value:
            raise UserError(
                f"{run} was begun with {key}={begun[key]}, now it is {value}: go on with the same recipe, or choose "
                f"another run="
            )
    if before["vocabulary"] != now["vocabulary"]:
        raise UserError(
            f"the checkpoint in {run} has another vocabulary than the captions of {data}, which have changed since: "
            f"put them back, or choose another run="
        )
    was, becomes = (asdict(Config.from_json(facts["config"])) for facts in (before, now))
    for key in was:
        if was[key] != becomes[key]:
            raise UserError(
                f"the model in {run} has {key}={was[key]}, the features of {data} or the vectors now ask for "
                f"{becomes[key]}: put them back, or choose another run="
            )


def _named(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{start}.{key}": value for key, value in tensors.items()}


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def _set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
