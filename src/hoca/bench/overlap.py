"""Extraction with all cores and the device: its stages alone, and all of them at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from hoca import media
from hoca.bench import Row
from hoca.bench.extraction import precision_of, require, row_of
from hoca.features.engines.local import Clip, Worker
from hoca.features.engines.videos import VideoFile
from hoca.files import in_units
from hoca.progress import say

BATCHES = 4  # of different clips, which the networks get twice


def decoded(worker: Worker, videos: list[VideoFile]) -> Iterator[media.DecodedVideo]:
    for _, result in worker.decoders.map(worker.extractor.request(video.path) for video in videos):
        if isinstance(result, media.DecodedVideo):
            yield result
        else:
            require([result.reason])


def decoding(worker: Worker, videos: list[VideoFile], about: Row) -> Row:
    """All videos in all processes, which have begun, into this one; nothing is kept."""
    begun = time.perf_counter()
    played = [clip.duration for clip in decoded(worker, videos)]
    return row_of(
        about, "decode", "", worker.decoders.workers, 1, len(played), sum(played), time.perf_counter() - begun
    )


def sending(worker: Worker, videos: list[VideoFile], about: Row) -> Row:
    """As `decoding`, and from this process to the GPU."""
    begun = time.perf_counter()
    played = [duration for clip in worker.clips(videos) for duration in _durations([clip])]
    if worker.sends:
        torch.cuda.synchronize()
    return row_of(about, "send", "", worker.decoders.workers, 1, len(played), sum(played), time.perf_counter() - begun)


def batches(worker: Worker, videos: list[VideoFile], about: Row) -> Row:
    """The networks alone over different clips, which wait on the device; the second time, when all shapes are known."""
    clips = list(worker.clips(videos[: BATCHES * worker.batch]))
    played = _durations(clips)
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        for _ in worker.features(clips):
            pass
        seconds.append(time.perf_counter() - begun)
    say(f"{len(clips)} clips in batches of {worker.batch}: {seconds[0]:.3g} s at first, then {seconds[1]:.3g} s")
    precision = precision_of(worker.extractor)
    return row_of(about, "batches", precision, "", worker.batch, len(played), sum(played), seconds[1])


def _durations(clips: list[Clip]) -> list[float]:
    require([result.reason for _, result in clips if isinstance(result, media.Failure)])
    return [result.duration for _, result in clips if isinstance(result, media.DecodedVideo)]


def pipeline(worker: Worker, videos: list[VideoFile], about: Row) -> Row:
    """All videos through decoders, networks and store; the first batch goes through once before the clock starts."""
    list(worker.outcomes(videos[: worker.batch]))
    begun = time.perf_counter()
    outcomes = list(worker.outcomes(videos))
    seconds = time.perf_counter() - begun
    require([outcome.why for outcome in outcomes if outcome.status == "failed"])
    played = sum(outcome.duration or 0.0 for outcome in outcomes)
    if worker.sends:
        say(f"at most {in_units(torch.cuda.max_memory_allocated())} of the GPU's memory")
    precision, processes = precision_of(worker.extractor), worker.decoders.workers
    return row_of(about, "pipeline", precision, processes, worker.batch, len(videos), played, seconds)
