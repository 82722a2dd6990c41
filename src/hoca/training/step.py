"""One training step: forward, backward, update. Plainly, in fixed shapes, or as captured CUDA graphs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from hoca.data import Batch
from hoca.devices import capturing
from hoca.distributed import Distributed, FlatGradients
from hoca.errors import UserError
from hoca.generation.captured import search_captured
from hoca.generation.step import WordByWord, inference
from hoca.models import CaptionModel, Memory, Weighted
from hoca.models.interface import ScoresPlaces
from hoca.training.fixed_shapes import Features, Inputs, Shape, lay_out
from hoca.training.objectives import WORDS, Objective, RewardObjective, TeacherForcing, reported, summed
from hoca.training.optimizer import begin_optimizer, set_rate
from hoca.training.recipe import TrainSection
from hoca.training.state import State

Losses = dict[str, Tensor]  # by name, `loss` first, each summed over this process's captions, on the device
Scored = Callable[[], Batch]  # gives a batch with the rewards of the captions in it


class Step(Protocol):
    def __call__(self, batch: Batch, rate: float) -> Losses:
        """Learn from a batch; returns its losses."""


def choose_step(settings: TrainSection, state: State, objective: Objective) -> Step:
    """`auto` captures on a GPU, but not where the loss is no weighted sum over words."""
    gpu = state.dist.device.type == "cuda"
    if settings.cuda_graph == "on" and not (gpu and objective.fixed_shapes):
        smooth = " with label_smoothing" if settings.label_smoothing else ""
        why = f"cannot train for {settings.objective}{smooth}" if gpu else "needs a GPU"
        raise UserError(f"cuda_graph=on {why}: use cuda_graph=auto")
    if settings.cuda_graph == "off" or not gpu or not objective.fixed_shapes:
        return PlainStep(settings, state, objective)
    return CapturedStep(settings, state, objective)


class PlainStep:
    """Operation by operation, in the batch's own shape; several processes average their gradients through DDP."""

    def __init__(self, settings: TrainSection, state: State, objective: Objective) -> None:
        self.settings, self.state, self.objective = settings, state, objective
        self.wrapped = state.dist.wrap(TeacherForcing(state.model, objective))

    def __call__(self, batch: Batch, rate: float) -> Losses:
        dist = self.state.dist
        set_rate(self.state.optimizer, rate)
        batch = batch.to(dist.device, non_blocking=True)
        with autocast(self.settings, dist):
            losses = self.wrapped(self.objective.examples(self.state.model, batch))
            total = summed(losses)
        self.state.optimizer.zero_grad(set_to_none=True)
        # Gradients are averaged over the processes: times their number, they are those of the global batch.
        (total * dist.world / batch.global_caption_count).backward()
        clip(self.settings, self.state)
        self.state.optimizer.step()
        if self.state.average is not None:
            self.state.average.update_parameters(self.state.model)
        return reported(losses)


class StaticStep:
    """The same in one of a few fixed shapes, at fixed addresses, with no value looked at on the host."""

    SHAPES = 128  # whose inputs are kept

    def __init__(self, settings: TrainSection, state: State, objective: Objective) -> None:
        self.settings, self.state, self.objective = settings, state, objective
        self.videos = -(-settings.batch_size // state.dist.world)
        self._inputs: OrderedDict[Shape, Inputs] = OrderedDict()
        self._features: WeakValueDictionary[Hashable, Features] = WeakValueDictionary()
        begin_optimizer(state.optimizer)
        trained = [p for p in state.model.parameters() if p.requires_grad]
        self._gradients = FlatGradients(trained) if state.dist.initialized else None
        self._whole = None if isinstance(state.model, ScoresPlaces) else TeacherForcing(state.model, objective)

    @property
    def shapes(self) -> int:
        """In how many shapes batches have come."""
        return len(self._inputs)

    def __call__(self, batch: Batch, rate: float) -> Losses:
        examples, scored = self._examples(batch)
        inputs = self._filled(examples)
        set_rate(self.state.optimizer, rate)
        average = self.state.average
        first = average is not None and int(average.n_averaged) == 0
        losses = self._run(inputs, scored, first=first)
        if average is not None:
            if first:
                average.update_parameters(self.state.model)
            else:
                average.n_averaged += 1
        return losses

    def _examples(self, batch: Batch) -> tuple[Batch, Scored | None]:
        """With captions of the model's own, where the objective has such, and what tells their rewards."""
        if not isinstance(self.objective, RewardObjective):
            return batch, None
        model = self.state.model
        inputs = self._filled(replace(batch, words=batch.words[:, :1, :2], weights=None, targets={}))  # its videos
        with inference(model), autocast(self.settings, self.state.dist):
            return self.objective.with_own(model, self._encode(inputs), batch, self._search)

    def _encode(self, inputs: Inputs) -> Memory:
        return self.state.model.encode(inputs.features, inputs.lengths, inputs.category)

    def _search(self, search: WordByWord, model: CaptionModel, memory: Memory) -> Any:
        return search.run(model, memory)

    def _filled(self, batch: Batch) -> Inputs:
        """The batch where a step of its shape reads it."""
        config = self.state.model.config
        pad = self.state.model.vocabulary.pad
        shape, numbers = lay_out(batch, videos=self.videos, pad=pad, max_steps=config.max_steps)
        if shape not in self._inputs:
            if len(self._inputs) == self.SHAPES:
                self._forget(self._inputs.popitem(last=False)[0])
            self._inputs[shape] = Inputs(shape, config.modalities, self.state.dist.device, self._features)
        self._inputs.move_to_end(shape)
        self._inputs[shape].fill(batch, numbers)
        return self._inputs[shape]

    def _run(self, inputs: Inputs, scored: Scored | None, *, first: bool) -> Losses:
        """`first`: the running average of the weights has not begun."""
        return self._compute(inputs, scored, averaging=not first)

    def _forget(self, shape: Shape) -> None:
        """What was kept for a shape is no longer needed."""

    def _forward(self, inputs: Inputs) -> tuple[Any, ...]:
        """Logits at the places that hold a word, where the model can score those alone; otherwise at all places.

        What a caption counts does not enter: on a GPU, the host finds it out meanwhile.
        """
        self.state.optimizer.zero_grad(set_to_none=True)
        with autocast(self.settings, self.state.dist):
            if self._whole is not None:
                return self._whole.decoded(inputs.batch())
            assert isinstance(self.state.model, ScoresPlaces)
            return (
                self.state.model.forward_at(
                    inputs.features,
                    inputs.lengths,
                    inputs.shape.ragged,
                    inputs.words[:, :, :-1],
                    inputs.places,
                    inputs.category,
                ),
            )

    def _losses(self, inputs: Inputs, found: tuple[Any, ...]) -> dict[str, Weighted]:
        if self._whole is not None:
            return self._whole.losses(inputs.batch(), *found)
        (logits,) = found
        return {WORDS: Weighted(1.0, self.objective.loss(logits, inputs.targets, inputs.place_weights()))}

    def _compute(self, inputs: Inputs, scored: Scored | None, *, averaging: bool) -> Losses:
        found = self._forward(inputs)
        if scored is not None:
            inputs.fill_values(scored())
        return self._learn(inputs, found, averaging=averaging)

    def _learn(self, inputs: Inputs, found: tuple[Any, ...], *, averaging: bool) -> Losses:
        """From what `_forward` found."""
        state, model = self.state, self.state.model
        with autocast(self.settings, state.dist):
            losses = self._losses(inputs, found)
            total = summed(losses)
        (total / inputs.count).backward()
        if self._gradients is not None:
            self._gradients.reduce()
        clip(self.settings, state)
        state.optimizer.step()
        if averaging and state.average is not None:
            with torch.no_grad():
                averaged: list[Tensor] = list(state.average.module.parameters())
                weights: list[Tensor] = list(model.parameters())
                torch._foreach_lerp_(averaged, weights, 1 - self.settings.ema_decay)
        return reported(losses)


class CapturedStep(StaticStep):
    """The same as CUDA graphs, one per shape: a step is one launch, whatever number of kernels it has.

    A shape's first batch is computed without a graph, which also prepares the libraries; its second one is captured.
    With rewards a step is two graphs: while the first one scores the words, the host scores the captions.
    """

    GRAPHS = 96  # that are kept; they share one pool of memory, since no two run at once

    def __init__(self, settings: TrainSection, state: State, objective: Objective) -> None:
        super().__init__(settings, state, objective)
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: OrderedDict[Shape, tuple[list[torch.cuda.CUDAGraph], Losses]] = OrderedDict()
        self._encoders: dict[Shape, tuple[torch.cuda.CUDAGraph, Memory] | None] = {}
        self._seen: set[Shape] = set()

    def _run(self, inputs: Inputs, scored: Scored | None, *, first: bool) -> Losses:
        shape = inputs.shape
        if first or shape not in self._seen:
            self._seen.add(shape)
            return self._compute(inputs, scored, averaging=not first)
        if shape not in self._graphs:
            if len(self._graphs) == self.GRAPHS:
                self._graphs.popitem(last=False)
            self._graphs[shape] = self._capture(inputs, halves=scored is not None)
        self._graphs.move_to_end(shape)
        (graph, *second), losses = self._graphs[shape]
        graph.replay()
        if scored is not None:
            inputs.fill_values(scored())
            second[0].replay()
        return losses

    def _encode(self, inputs: Inputs) -> Memory:
        shape = inputs.shape
        if shape not in self._encoders:
            self._encoders[shape] = None
            return super()._encode(inputs)
        kept = self._encoders[shape]
        if kept is None:
            graph = torch.cuda.CUDAGraph()
            torch.clear_autocast_cache()  # the graph casts weights itself: they change
            with capturing(graph, pool=self._pool):
                memory = super()._encode(inputs)
            torch.clear_autocast_cache()
            kept = self._encoders[shape] = graph, memory
        kept[0].replay()
        return kept[1]

    def _search(self, search: WordByWord, model: CaptionModel, memory: Memory) -> Any:
        return search_captured(search, model, memory)

    def _capture(self, inputs: Inputs, *, halves: bool) -> tuple[list[torch.cuda.CUDAGraph], Losses]:
        """halves: up to the logits, and from there on."""
        self.state.optimizer.zero_grad(set_to_none=True)
        graphs = [torch.cuda.CUDAGraph()]
        with capturing(graphs[0], pool=self._pool):
            found = self._forward(inputs)
            if not halves:
                losses = self._learn(inputs, found, averaging=True)
        if halves:
            graphs.append(torch.cuda.CUDAGraph())
            with capturing(graphs[1], pool=self._pool):
                losses = self._learn(inputs, found, averaging=True)
        self.state.optimizer.zero_grad(set_to_none=True)  # their memory is the next graph's too
        return graphs, losses

    def _forget(self, shape: Shape) -> None:
        self._graphs.pop(shape, None)
        self._encoders.pop(shape, None)
        self._seen.discard(shape)


def autocast(settings: TrainSection, dist: Distributed) -> torch.autocast:
    return torch.autocast(dist.device.type, torch.bfloat16, enabled=settings.precision == "bf16")


def clip(settings: TrainSection, state: State) -> None:
    if settings.gradient_clip:
        nn.utils.clip_grad_norm_(state.model.parameters(), settings.gradient_clip)
