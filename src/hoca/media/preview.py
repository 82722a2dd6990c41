"""What people are shown of a clip: small pictures with their times, and the outline of its sound."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hoca.media.clock import Clock
from hoca.media.request import Decoded, Pictures, Request, Spread

PICTURES = 20
SIDE = 256  # pixels of a thumbnail's longer side
ENVELOPE = 480  # points of the sound's outline
RATE = 8000  # samples per second, enough for an outline
BYTES = 1_500_000  # of all thumbnails together, so that a report stays small whatever is in the pictures
NAME = "preview"  # of its pictures in a request

Decode = Callable[[Request], Decoded]


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


def preview(video: Path | str, decode: Decode, pictures: int = PICTURES) -> Preview:
    """Evenly spaced pictures of a video file and the outline of its sound."""
    return decode_with_preview(Request(Path(video)), decode, pictures)[1]


def decode_with_preview(request: Request, decode: Decode, pictures: int = PICTURES) -> tuple[Decoded, Preview]:
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
    waveform, duration = found.waveform, found.duration
    if waveform is not None and wanted.sound_seconds and len(waveform) >= int(wanted.sound_seconds * found.rate):
        whole = decode(Request(request.path, rate=RATE))
        waveform, duration = whole.waveform, max(duration, whole.duration)
    return found, Preview(*_pictures(found, pictures, duration), envelope(waveform))


def _pictures(found: Decoded, pictures: int, duration: float) -> tuple[Clock, tuple[Thumbnail, ...]]:
    if NAME not in found.pictures or not found.frames:
        return Clock(0, duration, (), ()), ()
    numbers = Spread(pictures)(found.frames)
    first = [i for i, number in enumerate(numbers) if i == 0 or numbers[i - 1] != number]  # a short clip repeats frames
    times = tuple(found.times[NAME][first].tolist())
    clock = Clock(found.frames, duration, tuple(numbers[i] for i in first), times)
    return clock, thumbnails(found.pictures[NAME][first], times)


def thumbnail(picture: np.ndarray) -> np.ndarray:
    """uint8 [height, width, 3] → the same picture with its longer side at most `SIDE`."""
    from PIL import Image  # comes with matplotlib

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


def _jpeg(frame: np.ndarray, quality: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "JPEG", quality=quality, optimize=True)
    return buffer.getvalue()
