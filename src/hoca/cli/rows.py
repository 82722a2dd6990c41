"""Captions as they are printed or written: text, JSON, CSV, SRT and WebVTT. No torch."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from hoca.cli.common import json_line
from hoca.files import escaped
from hoca.media.subtitles import clock_time, srt, vtt

if TYPE_CHECKING:
    from hoca.captioning import Caption, Segment


@dataclass(frozen=True)
class Row:
    video: str  # its printable name
    caption: Caption
    segment: Segment | None = None  # which part the caption is for; None: all of it


@dataclass(frozen=True)
class Style:
    named: bool  # whether each line says of which video it is
    least: float  # confidence below which a sentence is unsure
    segments: bool


def text(rows: Iterable[Row], style: Style) -> Iterator[str]:
    for row in rows:
        name = f"{row.video}: " if style.named else ""
        doubt = " ?" if row.caption.unsure(style.least) else ""
        yield f"{name}{_times(row)}{escaped(row.caption.text)}{doubt}\n"


def json_lines(rows: Iterable[Row], style: Style) -> Iterator[str]:
    for row in rows:
        yield json_line({"video": row.video} | (row.segment or row.caption).to_json()) + "\n"


def comma_separated(rows: Iterable[Row], style: Style) -> Iterator[str]:
    times = ["start", "end"] if style.segments else []
    yield _csv(["video", *times, "text", "confidence"])
    for row in rows:
        at = [f"{row.segment.start:.3f}", f"{row.segment.end:.3f}"] if row.segment else []
        sure = "" if row.caption.confidence is None else f"{row.caption.confidence:g}"
        yield _csv([row.video, *at, row.caption.text, sure])


def _cues(rows: Iterable[Row]) -> Iterator[tuple[float, float, str]]:
    return ((row.segment.start, row.segment.end, row.caption.text) for row in rows if row.segment)


FORMATS: dict[str, Callable[[Iterable[Row], Style], Iterator[str]]] = {
    "text": text,
    "json": json_lines,
    "csv": comma_separated,
    "srt": lambda rows, style: srt(_cues(rows)),
    "vtt": lambda rows, style: vtt(_cues(rows)),
}
SUBTITLES = ("srt", "vtt")


def merged_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Neighbouring segments of a video that say the same as one."""
    from hoca.captioning.segments import merged

    for (video, in_segments), group in groupby(rows, key=lambda row: (row.video, row.segment is not None)):
        if not in_segments:
            yield from group
            continue
        for segment in merged(row.segment for row in group if row.segment):
            yield Row(video, segment.caption, segment)


def _times(row: Row) -> str:
    if row.segment is None:
        return ""
    return f"{clock_time(row.segment.start)}–{clock_time(row.segment.end)} "


def _csv(values: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
