"""One model process, and processes that decode ahead of it; several videos go through a network at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
BATCHES_ON_GPU = 2  # of which one is copied to the GPU while the other is computed
WRITERS = 4  # files that wait for the disk at a time

T = TypeVar("T")
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
        self.batches = BATCHES_ON_GPU if device.type == "cuda" else 1  # that are with the networks at a time
        self.extractor = extractor or Extractor(specification, device=str(device), precision=settings.precision)

    def __enter__(self) -> Worker:
        self.decoders.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.decoders.__exit__(kind, error, trace)

    def outcomes(self, videos: Sequence[VideoFile]) -> Iterator[Outcome]:
        by_path = {video.path: video for video in videos}
        results = self.decoders.map(self.extractor.request(video.path) for video in videos)
        writing: list[Future[Outcome]] = []  # of the batch before, while the networks have the next
        with ThreadPoolExecutor(WRITERS) as writers, ThreadPoolExecutor(self.batches) as computing:
            for batch in in_order(computing, self._made, _batches(results, self.batch), ahead=self.batches):
                yield from (each.result() for each in writing)
                writing = [writers.submit(self._kept, by_path[path], one) for path, one in batch]
            yield from (each.result() for each in writing)

    def _made(self, batch: list[tuple[media.Request, media.DecodedVideo | media.Failure]]) -> list[Made]:
        """The features of each file of a batch, or why there are none."""
        made = iter(self._features([result for _, result in batch if isinstance(result, media.DecodedVideo)]))
        return [
            (request.path, next(made) if isinstance(result, media.DecodedVideo) else result.reason)
            for request, result in batch
        ]

    def _features(self, decoded: list[media.DecodedVideo]) -> list[Extracted | str]:
        """Features of a batch; where the GPU's memory does not suffice for it, in halves."""
        if not decoded:
            return []
        try:
            return list(self.extractor.features(decoded))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(decoded) == 1:
                return ["the GPU's memory does not suffice for this video: use --device cpu"]
        middle = len(decoded) // 2
        return self._features(decoded[:middle]) + self._features(decoded[middle:])

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
