"""Take few frames out of a long file by jumping to the key frames before them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from hoca.media.gather import Gatherer
from hoca.media.streams import Elsewhere, Watch, frames
from hoca.media.survey import Survey

LONG = 2000  # frames; what is shorter is decoded whole, which also finds frames that are announced but do not decode
GAIN = 3  # how much less there must be to decode: a jump has its own cost


Plan = list[tuple[tuple[int, int], list[int]]]


def jumps(survey: Survey, wanted: set[int]) -> Plan | None:
    """[(key frame, wanted frames that follow from it, in order), …], or None where decoding everything is right."""
    if survey.count <= LONG or not survey.stamps:
        return None
    groups: dict[tuple[int, int], list[int]] = {}
    places = {stamp: place for place, stamp in enumerate(survey.stamps)}
    for number in sorted(wanted):
        key = survey.key_before(survey.stamps[number])
        if key is None or key[0] not in places:  # that of a part's first frames may be before the part
            return None
        groups.setdefault(key, []).append(number)
    cost = sum(chosen[-1] - places[key[0]] + 1 for key, chosen in groups.items())
    return list(groups.items()) if cost * GAIN <= survey.count else None


def take(container: Any, stream: Any, survey: Survey, plan: Plan, gatherer: Gatherer, watch: Watch) -> None:
    """Each frame between a key frame and the last one wanted must be the announced one, or nothing is believed."""
    places = {stamp: place for place, stamp in enumerate(survey.stamps)}
    source: Iterator[Any] | None = None
    reached = -1  # the number of the last decoded frame
    for key, chosen in plan:
        if source is None or reached < places[key[0]] - 1:
            source, reached = _after_seek(container, stream, key, watch), places[key[0]] - 1
        while reached < chosen[-1]:
            frame = next(source, None)
            if frame is None or isinstance(frame, str) or frame.pts is None:
                raise Elsewhere
            if frame.pts < survey.stamps[reached + 1] and frame.pts < key[0]:
                continue  # shown before the key frame, though stored after it, or between an earlier key frame and it
            if frame.pts != survey.stamps[reached + 1]:
                raise Elsewhere
            reached += 1
            gatherer.add(reached, frame)


def _after_seek(container: Any, stream: Any, key: tuple[int, int], watch: Watch) -> Iterator[Any]:
    for stamp in key:
        container.seek(stamp, stream=stream)
        source = frames(container, [stream], watch)
        first = next(source, None)
        if first is not None and not isinstance(first, str) and first.pts is not None and first.pts <= key[0]:
            return chain([first], source)
    raise Elsewhere
