"""One training step: forward, backward, update. Plainly, in fixed shapes, or as captured CUDA graphs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Protocol
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.data import Batch
from hoca.devices import capturing
from hoca.errors import UserError
from hoca.training.distributed import FlatGradients, Processes
from hoca.training.layout import Features, Inputs, Shape, lay_out
from hoca.training.objective import caption_loss
from hoca.training.recipe import Recipe
from hoca.training.reward import RewardObjective
from hoca.training.state import State


class Step(Protocol):
    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """Learn from a batch; returns its loss, summed over this process's captions, on the device."""


def choose_step(recipe: Recipe, state: State, pad: int, reward: RewardObjective | None) -> Step:
    """`auto` captures on a GPU, but not where rewards have to be looked up on the host within the step."""
    gpu = state.here.device.type == "cuda"
    if recipe.step == "captured" and (not gpu or reward is not None):
        why = "needs a GPU" if not gpu else "cannot train for reward, which is computed on the host"
        raise UserError(f"step=captured {why}: use step=auto")
    if recipe.step == "plain" or not gpu or reward is not None:
        return PlainStep(recipe, state, pad, reward)
    return CapturedStep(recipe, state, pad)


class PlainStep:
    """Operation by operation, in the batch's own shape; several processes average their gradients through DDP."""

    def __init__(self, recipe: Recipe, state: State, pad: int, reward: RewardObjective | None = None) -> None:
        self.recipe, self.state, self.pad, self.reward = recipe, state, pad, reward
        self.wrapped = state.here.wrap(state.model)

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        here = self.state.here
        set_rate(self.state.optimizer, rate)
        batch = batch.to(here.device, non_blocking=True)
        with autocast(self.recipe, here):
            summed = self._loss(batch)
        self.state.optimizer.zero_grad(set_to_none=True)
        # Gradients are averaged over the processes: times their number, they are those of the global batch.
        (summed * here.world / batch.global_caption_count).backward()
        clip(self.recipe, self.state)
        self.state.optimizer.step()
        if self.state.average is not None:
            self.state.average.update_parameters(self.state.model)
        return summed.detach()

    def _loss(self, batch: Batch) -> Tensor:
        if self.reward is not None:
            return self.reward(self.state.model, self.wrapped, batch)
        logits = self.wrapped(batch.features, batch.lengths, batch.words[:, :, :-1], batch.category)
        return caption_loss(logits, batch.words, self.pad, self.recipe.label_smoothing)


class StaticStep:
    """The same in one of a few fixed shapes, at fixed addresses, with no value looked at on the host."""

    SHAPES = 128  # whose inputs are kept

    def __init__(self, recipe: Recipe, state: State, pad: int) -> None:
        self.recipe, self.state, self.pad = recipe, state, pad
        self.videos = -(-recipe.batch // state.here.world)
        self._inputs: OrderedDict[Shape, Inputs] = OrderedDict()
        self._features: WeakValueDictionary[Hashable, Features] = WeakValueDictionary()
        _begin_optimizer(state.optimizer)
        self._gradients = FlatGradients(list(state.model.parameters())) if state.here.joined else None

    @property
    def shapes(self) -> int:
        """In how many shapes batches have come."""
        return len(self._inputs)

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        config = self.state.model.config
        shape, numbers = lay_out(batch, videos=self.videos, pad=self.pad, max_steps=config.max_steps)
        if shape not in self._inputs:
            if len(self._inputs) == self.SHAPES:
                self._forget(self._inputs.popitem(last=False)[0])
            self._inputs[shape] = Inputs(shape, config.modalities, self.state.here.device, self._features)
        self._inputs.move_to_end(shape)
        self._inputs[shape].fill(batch, numbers)
        set_rate(self.state.optimizer, rate)
        average = self.state.average
        first = average is not None and int(average.n_averaged) == 0
        loss = self._run(self._inputs[shape], first=first)
        if average is not None:
            if first:
                average.update_parameters(self.state.model)
            else:
                average.n_averaged += 1
        return loss

    def _run(self, inputs: Inputs, *, first: bool) -> Tensor:
        """`first`: the running average of the weights has not begun."""
        return self._compute(inputs, averaging=not first)

    def _forget(self, shape: Shape) -> None:
        """What was kept for a shape is no longer needed."""

    def _compute(self, inputs: Inputs, *, averaging: bool) -> Tensor:
        state, model = self.state, self.state.model
        state.optimizer.zero_grad(set_to_none=True)
        with autocast(self.recipe, state.here):
            logits = model.forward_at(
                inputs.features, inputs.lengths, inputs.shape.ragged, inputs.words, inputs.places, inputs.category
            )
            summed = F.cross_entropy(  # eq. 24
                logits.flatten(0, 1),
                inputs.targets.flatten(),
                ignore_index=self.pad,
                reduction="sum",
                label_smoothing=self.recipe.label_smoothing,
            )
        (summed / inputs.count).backward()
        if self._gradients is not None:
            self._gradients.reduce()
        clip(self.recipe, state)
        state.optimizer.step()
        if averaging and state.average is not None:
            with torch.no_grad():
                averaged: list[Tensor] = list(state.average.module.parameters())
                weights: list[Tensor] = list(model.parameters())
                torch._foreach_lerp_(averaged, weights, 1 - self.recipe.average)
        return summed.detach()


class CapturedStep(StaticStep):
    """The same as CUDA graphs, one per shape: a step is one launch, whatever number of kernels it has.

    A shape's first batch is computed without a graph, which also prepares the libraries; its second one is captured.
    """

    GRAPHS = 96  # that are kept; they share one pool of memory, since no two run at once

    def __init__(self, recipe: Recipe, state: State, pad: int) -> None:
        super().__init__(recipe, state, pad)
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: OrderedDict[Shape, tuple[torch.cuda.CUDAGraph, Tensor]] = OrderedDict()
        self._seen: set[Shape] = set()

    def _run(self, inputs: Inputs, *, first: bool) -> Tensor:
        shape = inputs.shape
        if first or shape not in self._seen:
            self._seen.add(shape)
            return self._compute(inputs, averaging=not first)
        if shape not in self._graphs:
            if len(self._graphs) == self.GRAPHS:
                self._graphs.popitem(last=False)
            self._graphs[shape] = self._capture(inputs)
        self._graphs.move_to_end(shape)
        graph, loss = self._graphs[shape]
        graph.replay()
        return loss

    def _capture(self, inputs: Inputs) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        self.state.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with capturing(graph, pool=self._pool):
            loss = self._compute(inputs, averaging=True)
        self.state.optimizer.zero_grad(set_to_none=True)  # their memory is the next graph's too
        return graph, loss

    def _forget(self, shape: Shape) -> None:
        self._graphs.pop(shape, None)
        self._seen.discard(shape)


def autocast(recipe: Recipe, here: Processes) -> torch.autocast:
    return torch.autocast(here.device.type, torch.bfloat16, enabled=recipe.precision == "bf16")


def clip(recipe: Recipe, state: State) -> None:
    if recipe.gradient_clip:
        nn.utils.clip_grad_norm_(state.model.parameters(), recipe.gradient_clip)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """In place where the rate is a tensor, which a graph reads at its address."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _begin_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Moments for all weights now: begun within a graph, those of a modality met late would begin at each replay."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if not state:
                device = parameter.device if group["fused"] or group["capturable"] else "cpu"
                state["step"] = torch.zeros((), dtype=torch.float32, device=device)
                state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
