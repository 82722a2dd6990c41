"""Work that does not depend on each other, side by side on a GPU; one after the other elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

_streams: dict[torch.device, list[torch.cuda.Stream]] = {}


class ParallelStreams:
    """Streams that begin where the current one stands and are joined by it again; autograd goes back the same way.

    `captured`: only while a graph is captured, where streams cost nothing. Launched one by one, short kernels wait for
    the host, and a stream each would only add to its work.
    """

    def __init__(self, device: torch.device, *, captured: bool = False) -> None:
        self.device = device
        self.streams = _streams.setdefault(device, [])
        self.active = device.type == "cuda" and (not captured or torch.cuda.is_current_stream_capturing())
        self.used = 0

    @contextmanager
    def next(self) -> Iterator[None]:
        """The next stream, beside the current one and those before."""
        if not self.active:
            yield
            return
        if self.used == len(self.streams):
            self.streams.append(torch.cuda.Stream(self.device))
        stream = self.streams[self.used]
        self.used += 1
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream), saved_tensors_hooks(_alias, _used):  # _used: in the backward pass
            yield

    def join(self, results: Iterable[Tensor]) -> None:
        """From here on, the current stream may use what they have made."""
        if not self.active:
            return
        current = torch.cuda.current_stream(self.device)
        for stream in self.streams[: self.used]:
            current.wait_stream(stream)
        for tensor in results:
            _used(tensor)


def _alias(tensor: Tensor) -> Tensor:
    """The same memory: an output that its own graph held would never be freed without a backward pass."""
    return tensor.detach()


def _used(tensor: Tensor) -> Tensor:
    """What was made on another stream keeps its memory until the current one has read it."""
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor
