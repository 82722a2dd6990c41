"""Decode a local video file: RGB frames and mono sound, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hoca.errors import UserError
from hoca.media.clip import Clip

Transform = Callable[[np.ndarray], np.ndarray]


def read(
    path: Path | str,
    *,
    times: Sequence[float] | None = None,
    rate: int | None = 16000,
    transform: Transform | None = None,
) -> Clip:
    """All frames of a file, or for each of `times` (seconds) the frame on screen then, and its sound at `rate`.

    `rate=None` leaves the sound out. `transform` is applied to each frame [height, width, 3] as it is decoded, so that
    a long file needs no more memory than its transformed frames.
    """
    import av

    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: give the path of a video file")
    try:
        # The scheme keeps names such as `concat:…` or `http:…` what they are here: names of local files.
        container = av.open(f"file:{path.resolve()}", metadata_errors="ignore", options={"protocol_whitelist": "file"})
    except (av.FFmpegError, ValueError, OSError) as error:
        raise UserError(f"{path} is not a video that can be read ({_reason(error)}): is the file whole?") from None
    with container:
        if not container.streams.video:
            raise UserError(f"{path} has no picture: give a video file")
        pictures, shown, sound, problem = _decode(container, rate, times, transform)
        duration = _duration(container, shown)
    if not pictures:
        why = f" ({problem})" if problem else ""
        raise UserError(f"{path} has no picture that can be decoded{why}: is the file whole?")
    if times is not None:
        shown = list(times)
    waveform = None if sound is None or rate is None else sound
    return Clip(np.stack(pictures), np.array(shown, dtype=np.float64), duration, waveform, rate or 0)


def _decode(
    container: Any, rate: int | None, times: Sequence[float] | None, transform: Transform | None
) -> tuple[list[np.ndarray], list[float], np.ndarray | None, str]:
    """Pictures, the times of all decoded frames, the sound, and what stopped decoding early ("" if nothing)."""
    import av

    picture = _Picture(transform)
    picture_stream = container.streams.video[0]
    picture_stream.thread_type = "AUTO"
    sound_stream = container.streams.audio[0] if rate and container.streams.audio else None
    sound = _Sound(rate) if rate and sound_stream is not None else None
    choose = None if times is None else _AtTimes(times)
    pictures: list[np.ndarray] = []
    shown: list[float] = []
    problem = ""
    start = 0.0
    for frame in _frames(container, [stream for stream in (picture_stream, sound_stream) if stream is not None]):
        if isinstance(frame, str):
            problem = problem or frame
        elif isinstance(frame, av.AudioFrame):
            assert sound is not None
            sound.add(frame)
        else:
            at = frame.time if frame.time is not None else (shown[-1] if shown else 0.0)
            if not shown:
                start = at
            shown.append(at - start)
            if choose is None:
                pictures.append(picture(frame))
            else:
                choose.add(at - start, partial(picture, frame))
    if choose is not None:
        pictures = choose.pictures()
    return pictures, shown, sound.waveform(start) if sound else None, problem


def _frames(container: Any, streams: list[Any]) -> Iterator[Any]:
    """Decoded frames of the streams; a packet that cannot be decoded yields its error as text, and the rest follows."""
    import av

    packets = container.demux(streams)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except (av.FFmpegError, OSError) as error:
            yield _reason(error)
            return
        try:
            yield from packet.decode()
        except (av.FFmpegError, OSError, ValueError) as error:
            yield _reason(error)


class _Picture:
    """Frames as RGB arrays, all of the first one's size: a stream may change its size on the way."""

    def __init__(self, transform: Transform | None) -> None:
        from av.video.reformatter import VideoReformatter

        self.converter = VideoReformatter()  # one for all frames: a new one each time costs more than the decoding
        self.size: dict[str, int] = {}
        self.transform = transform

    def __call__(self, frame: Any) -> np.ndarray:
        self.size = self.size or {"width": frame.width, "height": frame.height}
        picture = self.converter.reformat(frame, format="rgb24", **self.size).to_ndarray()  # [height, width, 3]
        return self.transform(picture) if self.transform else picture


class _AtTimes:
    """For each requested time the last frame that is not later, the first frame for times before it."""

    def __init__(self, times: Sequence[float]) -> None:
        self.order = sorted(range(len(times)), key=lambda number: times[number])
        self.times = times
        self.chosen: dict[int, np.ndarray] = {}
        self.next = 0
        self.current: Callable[[], np.ndarray] | None = None

    def add(self, at: float, picture: Callable[[], np.ndarray]) -> None:
        tolerance = 1e-4  # container clocks are coarse: 1/24 s may be stored as 0.0417
        self._settle(lambda time: time < at - tolerance)
        self.current = picture

    def pictures(self) -> list[np.ndarray]:
        self._settle(lambda time: True)
        return [self.chosen[number] for number in range(len(self.times))] if self.chosen else []

    def _settle(self, due: Callable[[float], bool]) -> None:
        if self.current is None:
            return
        picture: np.ndarray | None = None
        while self.next < len(self.order) and due(self.times[self.order[self.next]]):
            picture = self.current() if picture is None else picture
            self.chosen[self.order[self.next]] = picture
            self.next += 1


class _Sound:
    """Collects audio frames of any format into one mono float32 waveform."""

    def __init__(self, rate: int) -> None:
        import av

        self.rate = rate
        self.resampler = av.AudioResampler(format="fltp", layout="mono", rate=rate)
        self.pieces: list[np.ndarray] = []
        self.start: float | None = None

    def add(self, frame: Any) -> None:
        if self.start is None:
            self.start = frame.time or 0.0
        self._take(frame)

    def waveform(self, picture_start: float) -> np.ndarray | None:
        """Sound from the first picture on: what is earlier is cut, a later start is filled with silence."""
        if self.start is None:
            return None
        self._take(None)
        samples = np.concatenate(self.pieces) if self.pieces else np.zeros(0, np.float32)
        lead = round((self.start - picture_start) * self.rate)
        return np.pad(samples, (lead, 0)) if lead > 0 else samples[-lead:]

    def _take(self, frame: Any) -> None:
        self.pieces += [piece.to_ndarray()[0].astype(np.float32) for piece in self.resampler.resample(frame)]


def _duration(container: Any, times: list[float]) -> float:
    if container.duration:
        return container.duration / 1_000_000
    if len(times) > 1:
        return times[-1] + (times[-1] - times[0]) / (len(times) - 1)
    return times[-1] if times else 0.0


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
