"""Decode a local file: wanted pictures and mono sound, in one pass where that is cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hoca.errors import UnreadableVideo
from hoca.files import in_units, printable
from hoca.media import seek
from hoca.media.gather import Gatherer, numbers
from hoca.media.length import length
from hoca.media.part import BACK, Part, within
from hoca.media.request import DecodedVideo, DecodeLimits, Request
from hoca.media.sound import Waveform
from hoca.media.source import opened, reason
from hoca.media.streams import Elsewhere, Watch, frames, picture_stream, seconds, sound_stream
from hoca.media.survey import Survey, survey

ATTEMPTS = 3  # a file whose packets promise other frames than they hold is decoded again, knowing better


@dataclass
class _Seen:
    """What passes over the file have brought so far."""

    part: Part | None = None  # of the file, where only that is wanted
    times: list[float] = field(default_factory=list)  # of all frames, from the first one
    start: float | None = None  # presentation time of the first frame
    interval: float = 0.0  # how long the last frame stays
    sound: Waveform | None = None
    complaint: str = ""  # the decoder's first
    sound_complaint: str = ""


def decode(request: Request, limits: DecodeLimits | None = None, threads: int = 0) -> DecodedVideo:
    """What `request` asks of its file, decoded in this process with so many threads (0: as many as are useful)."""
    watch = Watch.start(request.path, limits or DecodeLimits())
    try:
        return _decode(request, watch, threads)
    except MemoryError:
        raise watch.refuse(f"needs more memory than the limit of {in_units(watch.limits.memory)}") from None


def _decode(request: Request, watch: Watch, threads: int) -> DecodedVideo:
    if not request.pictures and not request.rate:
        return DecodedVideo({}, {}, 0, length(request.path, watch), None, 0)
    for back in BACK if request.part is not None else ():
        try:
            return _from(back, request, watch, threads)
        except Elsewhere:
            continue
    return _from(None, request, watch, threads)


def _from(back: float | None, request: Request, watch: Watch, threads: int) -> DecodedVideo:
    absent: dict[str, str] = {}
    seen = _Seen()
    ahead = Survey()
    with opened(request.path, watch.limits) as container:
        seen.part = Part.of(container, request, back)
        picture = picture_stream(container, watch, threads) if request.pictures else None
        has_sound = bool(request.rate) and sound_stream(container) is not None
        if picture is not None:
            ahead = survey(container, picture, watch, seen.part)
        if request.rate and not has_sound:
            absent["sound"] = "there is no sound in the file"
    gatherer = None
    if ahead.count:
        gatherer = _by_seeking(request, ahead, seen, watch, threads) or _by_streaming(
            request, ahead.times, seen, watch, threads
        )
    if seen.part is not None and seen.sound is not None and seen.sound.start is None:
        seen.sound = None  # perhaps it lies elsewhere in the file than the pictures
    if has_sound and seen.sound is None:
        _stream(request, None, seen, watch, threads)
    if request.pictures and gatherer is None:
        why = "there is no picture in the file" if picture is None else "no picture can be decoded"
        if seen.part is not None and picture is not None and not seen.complaint:
            why = "the pictures end before that"
        absent["picture"] = why + (f" ({seen.complaint})" if picture is not None and seen.complaint else "")
    waveform = _waveform(seen)
    if has_sound and waveform is None:
        absent["sound"] = "the sound cannot be decoded" + (f" ({seen.sound_complaint})" * bool(seen.sound_complaint))
    if gatherer is None and waveform is None:
        raise UnreadableVideo(f"{printable(request.path)}: {'; '.join(absent.values())}")
    return _result(request, gatherer, seen, waveform, absent)


def _by_seeking(request: Request, ahead: Survey, seen: _Seen, watch: Watch, threads: int) -> Gatherer | None:
    wanted = numbers(request.pictures, ahead.times)
    plan = seek.jumps(ahead, {number for chosen in wanted.values() for number in chosen})
    if plan is None:
        return None
    import av

    gatherer = Gatherer(request.pictures, wanted, watch)
    with opened(request.path, watch.limits) as container:
        stream: Any = picture_stream(container, watch, threads)
        try:
            seek.take(container, stream, ahead, plan, gatherer, watch)
        except MemoryError:
            raise
        except (Elsewhere, av.FFmpegError, OSError):
            return None
        seen.start = seen.part.start if seen.part else float(ahead.stamps[0] * stream.time_base)
    seen.times = ahead.times
    seen.interval = ahead.times[-1] - ahead.times[-2]
    return gatherer


def _by_streaming(request: Request, times: Sequence[float], seen: _Seen, watch: Watch, threads: int) -> Gatherer | None:
    for _ in range(ATTEMPTS):
        gatherer = Gatherer(request.pictures, numbers(request.pictures, times), watch)
        _stream(request, gatherer, seen, watch, threads)
        if not seen.times:
            return None
        times = seen.times
        if numbers(request.pictures, times) == gatherer.wanted:
            return gatherer
    raise watch.refuse("gives other frames each time it is decoded: is the file whole?")


def _stream(request: Request, gatherer: Gatherer | None, seen: _Seen, watch: Watch, threads: int) -> None:
    """One pass over the file or part: its pictures go to the gatherer, its sound is taken if it has not been yet."""
    import av

    part = seen.part
    with opened(request.path, watch.limits) as container:
        picture = picture_stream(container, watch, threads) if gatherer is not None else None
        sound = None
        if request.rate and seen.sound is None and (voice := sound_stream(container)) is not None:
            most = watch.limits.seconds if request.sound_seconds is None else request.sound_seconds
            longest = min(watch.limits.seconds, part.seconds if part else np.inf)
            sound = seen.sound = Waveform(request.rate, min(most, longest))
        if picture is not None:
            seen.times, seen.start = [], part.start if part else None
            tick = float(1 / (picture.average_rate or 25))
        streams = [picture] if picture is not None else []
        if sound:
            streams.append(voice)
        for frame in within(part, container, streams, watch) if part else frames(container, streams, watch):
            if isinstance(frame, str):
                seen.complaint = seen.complaint or frame
            elif isinstance(frame, av.VideoFrame):
                if gatherer is not None:
                    _add(frame, gatherer, seen, watch, tick)
            elif sound is not None and not sound.full:
                _hear(frame, sound, seen)
            elif sound is not None and request.sound_seconds is None and part is None:
                watch.span(sound.samples / sound.rate)  # all of it was wanted, and there is more
            elif picture is None:
                break


def _hear(frame: Any, sound: Waveform, seen: _Seen) -> None:
    import av

    try:
        sound.add(frame)
    except MemoryError:
        raise
    except (av.FFmpegError, OSError, ValueError) as error:
        seen.sound_complaint = seen.sound_complaint or reason(error)


def _waveform(seen: _Seen) -> np.ndarray | None:
    """Sound that its decoder cannot finish is absent; the pictures stay."""
    import av

    try:
        return seen.sound.waveform(seen.start) if seen.sound else None
    except MemoryError:
        raise
    except (av.FFmpegError, OSError, ValueError) as error:
        seen.sound_complaint = seen.sound_complaint or reason(error)
        return None


def _add(frame: Any, gatherer: Gatherer, seen: _Seen, watch: Watch, tick: float) -> None:
    clock = seconds(frame.pts, frame.time_base)
    if seen.start is None:
        seen.start = 0.0 if clock is None else clock
    last = seen.times[-1] if seen.times else -tick
    at = last + tick if clock is None else clock - seen.start
    if seen.part is not None:
        at = max(at, 0.0)  # on screen since before the part
    seen.interval = seconds(frame.duration, frame.time_base) or (at - last if seen.times else tick)
    gatherer.add(len(seen.times), frame)
    seen.times.append(at)
    watch.count(len(seen.times))


def _result(
    request: Request, gatherer: Gatherer | None, seen: _Seen, waveform: np.ndarray | None, absent: dict[str, str]
) -> DecodedVideo:
    times = np.array(seen.times, np.float64)
    rate = request.rate or 0
    longest = seen.part.seconds if seen.part else np.inf  # the last frame may stay on screen after the part
    return DecodedVideo(
        pictures=gatherer.arrays if gatherer else {},
        times={name: times[chosen] for name, chosen in gatherer.wanted.items()} if gatherer else {},
        frames=len(seen.times) if gatherer else 0,
        duration=max(
            min(float(times[-1]) + max(seen.interval, 0.0), longest) if gatherer else 0.0,
            len(waveform) / rate if waveform is not None else 0.0,
        ),
        waveform=waveform,
        rate=rate,
        absent=absent,
        damage=seen.complaint or seen.sound_complaint,
    )
