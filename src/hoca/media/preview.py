"""What people are shown of a clip: small pictures with their times, and the outline of its sound."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hoca.media.clock import Clock
from hoca.media.request import DecodedVideo, Pictures, Request, Spread

PICTURES = 20
SIDE = 256  # pixels of a thumbnail's longer side
ENVELOPE = 480  # points of the sound's outline
RATE = 8000  # samples per second, enough for an outline
BYTES = 1_500_000  # of all thumbnails together, so that a report stays small whatever is in the pictures
NAME = "preview"  # of its pictures in a request

Decode = Callable[[Request], DecodedVideo]


@dataclass(frozen=True)
class Thumbnail:
    time: float  # seconds
    jpeg: bytes
    size: tuple[int, int]  # width, height


@dataclass(frozen=True)
class Preview:
    clock: Clock
    thumbnails: tuple[Thumbnail, ...]
    envelope: tuple[float, ...]  # the largest amplitude of each of equal stretches, 0 to 1; empty: no sound


def preview(
    video: Path | str, decode: Decode, pictures: int = PICTURES, part: tuple[float, float] | None = None
) -> Preview:
    """Evenly spaced pictures of a video file, or of a part (start, end) of it, and the outline of its sound."""
    return decode_with_preview(Request(Path(video), part=part), decode, pictures)[1]


def decode_with_preview(request: Request, decode: Decode, pictures: int = PICTURES) -> tuple[DecodedVideo, Preview]:
    """What the request asks for, and a preview, from one decoding of the file.

    Only where the request takes less than the whole sound is that decoded again, by itself, for the outline.
    """
    wanted = replace(
        request,
        pictures={**request.pictures, NAME: Pictures(Spread(pictures), transform=thumbnail)},
        rate=request.rate or RATE,
        sound_seconds=request.sound_seconds if request.rate else None,
    )
    found = decode(wanted)
    if wanted.sound_seconds is None or found.waveform is None:
        return found, _preview(found, pictures)
    if len(found.waveform) < int(wanted.sound_seconds * found.rate):  # it ends before that
        return found, _preview(found, pictures)
    sound = decode(Request(request.path, rate=RATE, part=request.part))
    duration = max(found.duration, sound.duration)
    whole = replace(found, waveform=sound.waveform, rate=sound.rate, duration=duration)
    return found, _preview(whole, pictures)


def _preview(found: DecodedVideo, pictures: int) -> Preview:
    if NAME not in found.pictures or not found.frames:
        return Preview(Clock(0, 0.0, found.duration), (), _outline(found))
    numbers = Spread(pictures)(found.frames)
    first = [i for i, number in enumerate(numbers) if i == 0 or numbers[i - 1] != number]  # a short clip repeats frames
    times = tuple(found.times[NAME][first].tolist())
    clock = _clock(found, tuple(numbers[i] for i in first), times)
    return Preview(clock, thumbnails(found.pictures[NAME][first], times), _outline(found))


def _clock(found: DecodedVideo, numbers: tuple[int, ...], times: tuple[float, ...]) -> Clock:
    heard = 0.0 if found.waveform is None else len(found.waveform) / found.rate
    seen = found.duration
    if heard == seen and len(times) > 1:  # the sound may go on after the pictures: these go on at their last known rate
        interval = (times[-1] - times[-2]) / (numbers[-1] - numbers[-2])
        seen = min(seen, times[-1] + interval * (found.frames - numbers[-1]))
    return Clock(found.frames, seen, heard, numbers, times)


def thumbnail(picture: np.ndarray) -> np.ndarray:
    """uint8 [height, width, 3] → the same picture with its longer side at most `SIDE`."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((SIDE, SIDE))
    return np.asarray(image)


def thumbnails(frames: np.ndarray, times: tuple[float, ...]) -> tuple[Thumbnail, ...]:
    """frames uint8 [F, height, width, 3]; the quality falls until all of them are small enough together."""
    for quality in (82, 65, 45, 25):
        coded = [_jpeg(frame, quality) for frame in frames]
        if sum(map(len, coded)) <= BYTES:
            break
    height, width = frames.shape[1:3]
    return tuple(Thumbnail(round(t, 3), jpeg, (width, height)) for t, jpeg in zip(times, coded, strict=True))


def envelope(waveform: np.ndarray | None, points: int = ENVELOPE) -> tuple[float, ...]:
    """The largest amplitude in each of `points` equal stretches of the waveform [samples], against the loudest."""
    if waveform is None or not len(waveform):
        return ()
    starts = np.arange(points) * len(waveform) // points
    peaks = np.maximum.reduceat(np.abs(waveform), starts)
    loudest = float(peaks.max())
    return tuple(np.round(peaks / loudest, 3).tolist()) if loudest > 0 else (0.0,) * points


def _outline(found: DecodedVideo) -> tuple[float, ...]:
    """The outline over the whole clip: nothing where the sound has ended."""
    if found.waveform is None or not len(found.waveform):
        return ()
    missing = round(found.duration * found.rate) - len(found.waveform)
    return envelope(np.pad(found.waveform, (0, max(missing, 0))))


def _jpeg(frame: np.ndarray, quality: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "JPEG", quality=quality, optimize=True)
    return buffer.getvalue()
