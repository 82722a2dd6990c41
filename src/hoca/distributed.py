"""One process or many: the same code, started by itself or by `torchrun`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hoca.devices import choose_device


@dataclass(frozen=True)
class Distributed:
    rank: int
    world: int
    device: torch.device
    initialized: bool = False  # whether a process group exists, through which gradients are summed

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Gradients are averaged over the processes; a batch may leave parameters unused (a missing modality)."""
        return DistributedDataParallel(model, find_unused_parameters=True) if self.initialized else model

    def total(self, value: Tensor) -> Tensor:
        """The sum over the processes."""
        if self.world > 1:
            torch.distributed.all_reduce(value)
        return value

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        if self.world > 1:
            torch.distributed.barrier()


class FlatGradients:
    """All gradients in one piece of memory, summed over the processes in one call.

    Every process takes part in every step with all of them, whichever modalities its own videos lack.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.flat = parameters[0].new_zeros(sum(p.numel() for p in parameters))
        self.views = [
            part.view_as(p)
            for part, p in zip(self.flat.split([p.numel() for p in parameters]), parameters, strict=True)
        ]

    @torch.no_grad()
    def reduce(self) -> None:
        given = [(view, p.grad) for view, p in zip(self.views, self.parameters, strict=True) if p.grad is not None]
        if len(given) < len(self.views):
            self.flat.zero_()
        torch._foreach_copy_([view for view, _ in given], [gradient for _, gradient in given])
        torch.distributed.all_reduce(self.flat)
        for view, parameter in zip(self.views, self.parameters, strict=True):
            parameter.grad = view


def started() -> int:
    """How many processes `torchrun` started, this one among them; without it, one."""
    return int(os.environ.get("WORLD_SIZE", 1))


@contextmanager
def processes(device: str) -> Iterator[Distributed]:
    """Join the processes that `torchrun` started (nccl on GPUs, gloo on CPUs), or be the only one."""
    local, world = int(os.environ.get("LOCAL_RANK", 0)), started()
    place = choose_device(device)
    if place.type == "cuda":
        place = torch.device("cuda", place.index if place.index is not None else local)
        torch.cuda.set_device(place)
    if world == 1:
        yield Distributed(0, 1, place)
        return
    torch.distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Distributed(torch.distributed.get_rank(), world, place, initialized=True)
    finally:
        torch.distributed.destroy_process_group()
