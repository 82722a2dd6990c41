"""Arrays to a GPU and results from it, while it computes: neither waits for what was begun before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hoca.features.backbones.kinds import Later

BUFFERS, BYTES = 4, 1 << 25  # pinned memory: how many pieces are on their way at a time, and how large they are


@dataclass
class _Buffer:
    memory: Tensor  # uint8, pinned
    sent: Any  # the event after which it may be filled again


class Upload:
    """Copies arrays to a device piece by piece, through pinned buffers that are used again and again.

    Threads may call it at once. A thread that copies holds neither Python's lock nor torch's threads, so that others
    launch kernels and decode meanwhile; the device copies beside what it computes.
    """

    def __init__(self, device: torch.device, buffers: int = BUFFERS, size: int = BYTES) -> None:
        gpu = device.type == "cuda"
        self.device, self.size = device, size
        self.stream = torch.cuda.Stream(device) if gpu else None
        self._buffers: queue.SimpleQueue[_Buffer] = queue.SimpleQueue()
        for _ in range(buffers):
            memory = torch.empty(size, dtype=torch.uint8, pin_memory=gpu)
            self._buffers.put(_Buffer(memory, torch.cuda.Event(blocking=True) if gpu else None))

    def __call__(self, array: np.ndarray) -> Tensor:
        """The array on the device, where it will be after `arrived`; the array itself may be freed at once."""
        source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        with torch.cuda.stream(self.stream):
            target = torch.empty(array.shape, dtype=dtype, device=self.device)
            room = target.view(-1).view(torch.uint8)
            for first in range(0, len(source), self.size):
                self._send(source[first : first + self.size], room[first : first + self.size])
        return target

    def _send(self, piece: np.ndarray, room: Tensor) -> None:
        buffer = self._buffers.get()
        try:
            if buffer.sent is not None:
                buffer.sent.synchronize()
            np.copyto(buffer.memory.numpy()[: len(piece)], piece)
            room.copy_(buffer.memory[: len(piece)], non_blocking=True)
            if buffer.sent is not None:
                buffer.sent.record()
        finally:
            self._buffers.put(buffer)

    def arrived(self, sent: Tensor) -> Tensor:
        """What was sent, for the current stream, which waits for it; this thread does not."""
        if self.stream is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_stream(self.stream)
            sent.record_stream(stream)
        return sent


_uploads: dict[torch.device, Upload] = {}
_making = threading.Lock()


def upload_to(device: torch.device) -> Upload:
    """All networks on a device share its buffers, and the stream that `arrived` waits for."""
    with _making:
        if device not in _uploads:
            _uploads[device] = Upload(device)
        return _uploads[device]


def fetched(outputs: Sequence[Tensor]) -> Later:
    """[T, …] each, on their way from the device, in float32; the call waits until they are there."""
    here = torch.cat(list(outputs)).float().to("cpu", non_blocking=True)
    lengths = [len(each) for each in outputs]
    done = None
    if outputs[0].device.type == "cuda":
        done = torch.cuda.Event(blocking=True)
        done.record()

    def wait() -> list[np.ndarray]:
        if done is not None:
            done.synchronize()
        return [each.numpy().copy() for each in here.split(lengths)]  # pinned memory is for those on their way

    return wait
