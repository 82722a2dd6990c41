"""What lets host and GPU work ahead of each other: batches made early, losses looked at late."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hoca.data import Batch


class AsyncScalars:
    """Numbers that a device is still computing. Asking for them waits for them and for nothing begun later."""

    def __init__(self, value: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if value.is_cuda:
            self._value = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self._value.copy_(value, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._value = value

    def tolist(self) -> list[float]:
        if self._event is not None:
            self._event.synchronize()
        return self._value.tolist()


def prefetch(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches, gathered and copied on a GPU's second stream while the step before them still runs on the first."""
    if device.type != "cuda":
        yield from batches
        return
    copies = torch.cuda.Stream(device)
    copies.wait_stream(torch.cuda.current_stream(device))
    while True:
        with torch.cuda.stream(copies):
            batch = next(batches, None)
        if batch is None:
            return
        current = torch.cuda.current_stream(device)
        current.wait_stream(copies)
        for values in batch.features.values():
            if values.is_cuda:
                values.record_stream(current)
        yield batch
