"""Extraction of many videos into a store: here with processes that decode, or on a Ray cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from hoca.errors import UserError
from hoca.features.engines.settings import ExtractionSettings
from hoca.features.engines.summary import Outcome, Summary
from hoca.features.engines.videos import VideoFile, find
from hoca.features.index import Header
from hoca.features.store import FeatureStore, is_current
from hoca.files import printable
from hoca.garbage import no_garbage_collection
from hoca.media.source import unopened
from hoca.progress import bar, console, say

__all__ = ["ExtractionSettings", "Outcome", "Summary", "VideoFile", "extract_all", "find"]

Engine = Literal["local", "ray"]
Run = Callable[[Sequence[VideoFile], FeatureStore, dict[str, Any], ExtractionSettings], Iterator[Outcome]]


def extract_all(
    videos: Sequence[Path | str],
    store: FeatureStore,
    specification: dict[str, Any],
    settings: ExtractionSettings,
    *,
    engine: Engine = "local",
    report: Path | None = None,
) -> Summary:
    """Put the features of all videos into the store; what it holds already, made in the same way, is left alone.

    A video that fails costs itself alone. An interruption keeps what is done, and the report of it.
    """
    if not specification:
        raise UserError("nothing to extract: image, motion and audio are all none; choose a backbone for one of them")
    summary = Summary()
    waiting = []
    with no_garbage_collection():
        found = find(videos)
        store.sweep()
        stored = store.survey()
        for video in found:
            outcome = _settled(video, store, stored.get(video.id), specification)
            if outcome is None:
                waiting.append(video)
            else:
                _note(summary, outcome)
    try:
        if waiting:
            for outcome in _shown(_engine(engine)(waiting, store, specification, settings), len(waiting)):
                _note(summary, outcome)
            store.survey()  # whoever opens a large store next finds its index up to date
    finally:
        report = report or store.folder / "extraction.csv"
        summary.write(report)
        say(f"{summary.table()}\neach video: {printable(report)}")
    return summary


def _settled(
    video: VideoFile, store: FeatureStore, header: Header | UserError | None, specification: dict[str, Any]
) -> Outcome | None:
    """What is known of a video before anything is decoded: it is done already, or cannot be stored."""
    try:
        if header is None:
            store.path(video.id)  # which says what is wrong with the id
        size = os.stat(video.file).st_size if video.size is None else video.size
    except UserError as error:
        return Outcome(video, "failed", printable(str(error)))
    except OSError as error:
        return Outcome(video, "failed", f"{printable(video.file)} {unopened(video.path, error)}")
    if not isinstance(header, Header) or not is_current(header, specification, size):
        return None
    return Outcome(video, "skipped", "", header.absent, header.duration)


def _note(summary: Summary, outcome: Outcome) -> None:
    summary.outcomes.append(outcome)
    if outcome.status == "failed":
        say(f"hoca: {outcome.why}")


def _engine(name: Engine) -> Run:
    if name == "ray":
        from hoca.features.engines import cluster

        return cluster.run
    from hoca.features.engines import local

    return local.run


def _shown(outcomes: Iterator[Outcome], total: int, every: float = 10.0) -> Iterator[Outcome]:
    """The outcomes, with clips a second and how many times faster than they play; a log gets a line now and then."""
    with bar() as progress:
        task = progress.add_task("extracting", total=total, note="")
        begun = last = time.monotonic()
        seconds = 0.0
        for number, outcome in enumerate(outcomes, start=1):
            seconds += outcome.duration or 0.0
            now = time.monotonic()
            passed = max(now - begun, 1e-9)
            note = f"{number / passed:.2g} clips/s"
            if seconds:  # of what was read
                note += f", {seconds / passed:.2g}× real time"
            progress.update(task, advance=1, note=note)
            if not console.is_terminal and (now - last > every or number == total):
                last = now
                say(f"extracting: {number} of {total}, {note}")
            yield outcome
