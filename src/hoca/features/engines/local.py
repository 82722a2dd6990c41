"""One model process, and processes that decode ahead of it; several videos go through a network at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch

from hoca import media
from hoca.devices import choose_device
from hoca.features.ahead import in_order
from hoca.features.engines.settings import ExtractionSettings
from hoca.features.engines.summary import Outcome
from hoca.features.engines.videos import VideoFile
from hoca.features.extract import Extracted
from hoca.features.extractor import Extractor
from hoca.features.store import FeatureStore
from hoca.files import printable

BATCH_ON_GPU = 16
BATCHES_ON_GPU = 2  # begun besides the one whose results are waited for, so that the GPU always has work
SENDERS = 2  # threads that copy clips to the GPU: one reads at about the speed at which 16 processes decode
WRITERS = 4  # files that wait for the disk at a time
NO_ROOM = "the GPU's memory does not suffice for this video: use --device cpu"

T = TypeVar("T")
Clip = tuple[media.Request, media.DecodedVideo | media.Failure]
Made = tuple[Path, Extracted | str]  # a file's features, or why there are none


def run(
    videos: Sequence[VideoFile], store: FeatureStore, specification: dict[str, Any], settings: ExtractionSettings
) -> Iterator[Outcome]:
    """Extract and store; yields what became of each video, in the order in which they finish."""
    with Worker(store, specification, settings) as worker:
        yield from worker.outcomes(videos)


class Worker:
    """A set of backbones, loaded once, with the processes that decode for it."""

    def __init__(
        self,
        store: FeatureStore,
        specification: dict[str, Any],
        settings: ExtractionSettings,
        extractor: Extractor | None = None,
    ) -> None:
        self.store = store
        self.specification = specification
        self.decoders = media.Decoders(workers=settings.decoders, limits=settings.limits)
        device = choose_device(settings.device)
        # On a CPU a batch saves nothing and holds its videos' frames in memory together.
        self.batch = settings.batch or (BATCH_ON_GPU if device.type == "cuda" else 1)
        self.sends = device.type == "cuda"
        self.batches = BATCHES_ON_GPU if device.type == "cuda" else 1  # that are with the networks at a time
        # One thread for as long as the worker lives, since cuDNN's plans of convolutions are kept for each thread.
        self._computing = ThreadPoolExecutor(1, "networks")
        self.extractor = extractor or Extractor(specification, device=str(device), precision=settings.precision)

    def __enter__(self) -> Worker:
        self.decoders.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.decoders.__exit__(kind, error, trace)
        self._computing.shutdown(cancel_futures=True)

    def outcomes(self, videos: Sequence[VideoFile]) -> Iterator[Outcome]:
        by_path = {video.path: video for video in videos}
        writing: list[Future[Outcome]] = []  # of the batch before, while the networks have the next
        crowded: list[VideoFile] = []  # had no room on the GPU beside the others: they are tried again alone
        with ThreadPoolExecutor(WRITERS) as writers:
            for batch in self.features(self.clips(videos)):
                yield from (each.result() for each in writing)
                crowded += [by_path[path] for path, one in batch if one is NO_ROOM]
                writing = [writers.submit(self._kept, by_path[path], one) for path, one in batch if one is not NO_ROOM]
            yield from (each.result() for each in writing)
        for video in crowded:
            for batch in self.features(self.clips([video])):
                yield from (self._kept(video, one) for _, one in batch)

    def clips(self, videos: Iterable[VideoFile]) -> Iterator[Clip]:
        """Decoded, and on the GPU where there is one, in the order in which they are."""
        clips = self.decoders.map(self.extractor.request(video.path) for video in videos)
        if not self.sends:
            yield from clips
            return
        with ThreadPoolExecutor(SENDERS) as senders:
            yield from in_order(senders, self._sent, clips, ahead=2 * SENDERS)

    def features(self, clips: Iterable[Clip]) -> Iterator[list[Made]]:
        """What the networks made of each batch, while they have the next."""
        for begun in in_order(self._computing, self._begin, _batches(clips, self.batch), ahead=self.batches):
            yield begun()

    def _sent(self, clip: Clip) -> Clip:
        """The clip on the GPU, so that the memory in which it was decoded is free for the next."""
        request, result = clip
        if isinstance(result, media.DecodedVideo):
            with suppress(torch.cuda.OutOfMemoryError):  # it is sent later, by its network
                result = self.extractor.send(result)
        return request, result

    def _begin(self, batch: list[Clip]) -> Callable[[], list[Made]]:
        """The features of each file of a batch, or why there are none; on a GPU they are there after the call."""
        files = [(request.path, getattr(result, "reason", None)) for request, result in batch]
        features = self._halved([result for _, result in batch if isinstance(result, media.DecodedVideo)])

        def finish() -> list[Made]:
            made = iter([one for some in features for one in some()])
            return [(path, next(made) if reason is None else reason) for path, reason in files]

        return finish

    def _halved(self, decoded: list[media.DecodedVideo]) -> list[Callable[[], Sequence[Extracted | str]]]:
        """Features of a batch; where the GPU's memory does not suffice for it, in halves."""
        if not decoded:
            return []
        try:
            return [self.extractor.begin(decoded)]
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(decoded) == 1:
                return [lambda: [NO_ROOM]]
        middle = len(decoded) // 2
        return self._halved(decoded[:middle]) + self._halved(decoded[middle:])

    def _kept(self, video: VideoFile, made: Extracted | str) -> Outcome:
        if isinstance(made, str) or not made.features:
            why = made if isinstance(made, str) else "; ".join(dict.fromkeys(made.absent.values()))
            return Outcome(video, "failed", _line(video, why))
        self.store.write(
            video.id,
            made.features,
            specification=self.specification,
            absent=made.absent,
            duration=made.duration,
            size=os.stat(video.file).st_size,
        )
        return Outcome(video, "done", "", made.absent, made.duration)


def _line(video: VideoFile, why: str) -> str:
    """A failure in one line that names the file, once."""
    name, why = printable(video.file), printable(why)
    return why if name in why else f"{name}: {why}"


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
