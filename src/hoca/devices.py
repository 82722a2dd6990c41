"""Where to compute, and how work on a GPU is captured as a graph."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hoca.errors import UserError
from hoca.options import shortened


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_device(name: str) -> torch.device:
    """`auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device={shortened(name)} is unknown: use auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device={name!r} asks for a GPU and none is available: use device=auto")
    return device


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, **options: Any) -> Iterator[None]:
    """`torch.cuda.graph`, for this thread alone, and without garbage collection.

    What an earlier run left may hold graphs, whose end would break a capture.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local", **options):
            yield
    finally:
        if collecting:
            gc.enable()
