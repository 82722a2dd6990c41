"""A long film as one sentence for each of its segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoca.errors import UserError
from hoca.files import printable
from hoca.media.request import Request
from hoca.media.scenes import Span, scenes, stretches
from hoca.media.subtitles import clock_time

if TYPE_CHECKING:
    from hoca.captioning.caption import Caption
    from hoca.captioning.captioner import VideoCaptioner
    from hoca.media import Decoders

SHORT_CLIP = 60.0  # seconds; what plays longer is more than one sentence can tell
LEAST = 1.0  # seconds of a segment


@dataclass(frozen=True)
class Segment:
    start: float  # seconds
    end: float
    caption: Caption
    watched: Span  # the seconds that the caption is about: of segments that were merged, those of the surest one

    @property
    def text(self) -> str:
        return self.caption.text

    def to_json(self) -> dict[str, Any]:
        return {"start": round(self.start, 3), "end": round(self.end, 3), **self.caption.to_json()}

    def merged(self, later: Segment) -> Segment:
        """One segment of two neighbours that say the same."""
        surer = (later.caption.confidence or 0.0) > (self.caption.confidence or 0.0)
        return replace(later if surer else self, start=self.start, end=later.end)


def merged(parts: Iterable[Segment]) -> Iterator[Segment]:
    """Neighbours that say the same as one segment; each comes when the next one says something else."""
    last: Segment | None = None
    for part in parts:
        if last is not None and last.text == part.text and math.isclose(last.end, part.start, abs_tol=1e-3):
            last = last.merged(part)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


@dataclass(frozen=True)
class Film:
    """A file, and from when to when it is to be captioned, in seconds."""

    path: Path
    start: float
    end: float
    length: float  # of the whole file

    @classmethod
    def measure(
        cls, captioner: VideoCaptioner, path: Path | str, start: float, end: float | None, decoders: Decoders | None
    ) -> Film:
        path = Path(path)
        length = (decoders or captioner.extractor.decoders).decode(Request(path)).duration
        if end is not None and end <= start:
            raise UserError(f"the end {clock_time(end)} is not after the start {clock_time(start)}: give a later one")
        if start >= length:
            raise UserError(
                f"{printable(path)} plays for {clock_time(length)}: the start {clock_time(start)} is after its end"
            )
        return cls(path, start, length if end is None else min(end, length), length)

    def spans(
        self, captioner: VideoCaptioner, every: float | None, by_scene: bool, decoders: Decoders | None
    ) -> Iterator[Span]:
        """The seconds of each segment, as they become known."""
        if by_scene:
            return scenes(self.path, (decoders or captioner.extractor.decoders).decode, self.start, self.end)
        assert every is not None
        return stretches(self.start, self.end, every)


def check(every: float | None, by_scene: bool) -> None:
    if (every is None) == (not by_scene):
        raise UserError("give either every=SECONDS or scenes=True")
    if every is not None and not LEAST <= every < math.inf:
        raise UserError(f"every: a segment lasts {LEAST:g} s or more, not {every:g}")


def captioned(
    captioner: VideoCaptioner,
    film: Film,
    spans: Iterable[Span],
    problem: Callable[[UserError], None] | None = None,
    **options: Any,
) -> Iterator[Segment]:
    """A sentence for each span. One that cannot be decoded is told to `problem`, and the next follows; None: raised."""
    for start, end in spans:
        try:
            caption = captioner.caption(film.path, start=start, end=end, **options)
        except UserError as error:
            if problem is None:
                raise
            problem(UserError(f"{clock_time(start)}–{clock_time(end)}: {error}"))
            continue
        yield Segment(start, end, caption, (start, end))
