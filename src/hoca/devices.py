"""Where to compute, and how work on a GPU is captured as a graph."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from hoca.errors import UserError
from hoca.garbage import no_garbage_collection
from hoca.options import shortened


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


def memory_of(device: torch.device) -> int:
    """Bytes that a process may have there: of the GPU, or of this machine, its container or its shell."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    bounds = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if hasattr(os, "sysconf") else [sys.maxsize]
    with suppress(OSError, ValueError):  # "max", or no control groups
        bounds.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    with suppress(ImportError):
        import resource

        bounds.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(bound for bound in bounds if bound > 0)  # -1 is no limit


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, **options: Any) -> Iterator[None]:
    """`torch.cuda.graph`, for this thread alone, and without garbage collection.

    What an earlier run left may hold graphs, whose end would break a capture.
    """
    with no_garbage_collection(), torch.cuda.graph(graph, capture_error_mode="thread_local", **options):
        yield
