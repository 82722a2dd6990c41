"""Features of many files, in their order: while some are used, the next are computed and those after them decoded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from hoca.errors import UserError
from hoca.features.extract import Extracted
from hoca.features.extractor import Extractor
from hoca.media import DecodedVideo, Decoders, Failure

GROUPS = 2  # that are with the networks at a time, so that these never wait for one another's last pictures
BYTES = 1 << 28  # of decoded pictures in a group: a clip that goes beyond is the group's last

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Made:
    """What became of one file."""

    path: Path | str
    result: Extracted | UserError
    seconds: dict[str, float]  # decoding, features


@dataclass(frozen=True)
class _Decoded:
    path: Path | str
    result: DecodedVideo | UserError
    seconds: float


def extract_ahead(
    extractor: Extractor,
    files: Iterable[Path | str | UserError],
    *,
    decoders: Decoders | None = None,
    batch_size: int = 8,
) -> Iterator[list[Made]]:
    """The features of files in groups of 1, 2, 4, … up to `batch_size`, so that the first is there soon.

    A file that cannot be read is an error in its place, and so is an error in place of a file. Memory is bounded: two
    groups are computed and two clips a decoding process are decoded ahead. On a CPU, torch works with one thread per
    operation until the last group is taken, and as many pictures as there are cores are computed at a time.
    """
    decode = (decoders or extractor.decoders).attempt
    workers = (decoders or extractor.decoders).workers

    def decoded(file: Path | str | UserError) -> _Decoded:
        if isinstance(file, UserError):
            return _Decoded("", file, 0.0)
        begun = time.perf_counter()
        found = decode(extractor.request(file))
        result = UserError(found.reason) if isinstance(found, Failure) else found
        return _Decoded(file, result, time.perf_counter() - begun)

    finished = 0.0  # when the networks were done with the group before, whose time is not counted twice

    def made(group: list[_Decoded]) -> list[Made]:
        nonlocal finished
        begun = time.perf_counter()
        clips = [each.result for each in group if isinstance(each.result, DecodedVideo)]
        features = iter(extractor.features(clips))
        begun, finished = max(begun, finished), time.perf_counter()
        each_took = (finished - begun) / max(len(clips), 1)
        return [
            Made(
                each.path,
                each.result if isinstance(each.result, UserError) else next(features),
                {"decoding": each.seconds, "features": each_took},
            )
            for each in group
        ]

    with _threads(workers) as decoding, _threads(GROUPS) as computing:
        clips = in_order(decoding, decoded, files, ahead=2 * workers)
        with extractor.side_by_side():  # which loads the networks while the first clips are decoded
            yield from in_order(computing, made, _groups(clips, batch_size), ahead=GROUPS)


def _groups(clips: Iterator[_Decoded], most: int) -> Iterator[list[_Decoded]]:
    size, held, group = 1, 0, list[_Decoded]()
    for clip in clips:
        group.append(clip)
        if isinstance(clip.result, DecodedVideo):
            held += sum(pictures.nbytes for pictures in clip.result.pictures.values())
        if len(group) >= size or held >= BYTES:
            yield group
            size, held, group = min(2 * size, most), 0, []
    if group:
        yield group


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], *, ahead: int
) -> Iterator[Result]:
    """The results in the order of the items; so many are begun at once, and one more for each that is taken."""
    waiting = iter(items)
    begun = deque(pool.submit(work, item) for item in islice(waiting, ahead))

    def results() -> Iterator[Result]:
        for item in waiting:
            begun.append(pool.submit(work, item))
            yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()

    return results()


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads whose waiting work is dropped, and not waited for, when nobody wants it any more."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
