"""The report of a long film: a timeline of its segments, each with what the words of its sentence looked at."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoca.errors import UserError
from hoca.explain.explanation import LABELS, ExplainedVideo
from hoca.explain.report import content, page, safe_json, sure
from hoca.media.preview import Thumbnail
from hoca.media.subtitles import clock_time

if TYPE_CHECKING:  # a process that does not caption should not load torch
    from hoca.captioning import Segment

MOST = 1000  # segments, so that a browser can open the file
BYTES = 45_000  # of the pictures of one segment
SIDES = (256, 160, 96, 64)  # pixels of their longer side: the first at which they are small enough


@dataclass(frozen=True)
class FilmSegment:
    start: float  # seconds
    end: float
    watched: tuple[float, float]  # the seconds that `content` is about
    text: str
    content: dict[str, Any]  # of `segment_content`


def segment_content(explanation: ExplainedVideo) -> dict[str, Any]:
    """What the report shows of one segment, as JSON has it: its pictures are smaller than those of a clip's report."""
    pictures = explanation.preview.thumbnails
    for side in SIDES:
        pictures = tuple(_within(each, side) for each in pictures)
        if sum(len(each.jpeg) for each in pictures) <= BYTES:
            break
    told = content(replace(explanation, preview=replace(explanation.preview, thumbnails=pictures)))
    return told | {"sure": sure(explanation.captions[0]), "unsure": explanation.captions[0].unsure}


def film_segments(parts: Iterable[tuple[Segment, dict[str, Any]]]) -> list[FilmSegment]:
    """Segments with their contents; of neighbours that say the same, one with the content of the surest."""
    from hoca.captioning.segments import merged

    contents: dict[tuple[float, float], dict[str, Any]] = {}

    def noted() -> Iterator[Segment]:
        for segment, told in parts:
            contents[segment.watched] = told
            yield segment

    return [
        FilmSegment(each.start, each.end, each.watched, each.text, contents[each.watched]) for each in merged(noted())
    ]


def film_report(video: str, found: Sequence[FilmSegment]) -> str:
    """One HTML page with a timeline to click on."""
    if not found:
        raise UserError(f"{video}: there is no segment to show")
    if len(found) > MOST:
        raise UserError(
            f"a report of {len(found)} segments is too large for a browser, which takes {MOST}: leave it out, or give "
            "a larger --every, or --start and --end"
        )
    length = clock_time(found[-1].end - found[0].start)
    told = "".join(
        f"<li>{clock_time(each.start)}–{clock_time(each.end)} {html.escape(each.text)}</li>\n" for each in found
    )
    return page(
        title=f"{video} · {len(found)} segments",
        video=video,
        facts=f"{length}, {len(found)} segment{'s' * (len(found) > 1)}",
        sentences=f"<ol>\n{told}</ol>",
        content=safe_json({"name": Path(video).stem, "labels": LABELS, "segments": [vars(each) for each in found]}),
    )


def _within(picture: Thumbnail, side: int) -> Thumbnail:
    """The same picture, its longer side at most so long."""
    from PIL import Image

    if max(picture.size) <= side:
        return picture
    image = Image.open(io.BytesIO(picture.jpeg))
    image.thumbnail((side, side))
    small = io.BytesIO()
    image.save(small, "JPEG", quality=70, optimize=True)
    return replace(picture, jpeg=small.getvalue(), size=image.size)
