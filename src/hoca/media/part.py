"""Part of a file as if it were a file of its own: jump to a key frame before it, and read on to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hoca.media.request import TOLERANCE, Request
from hoca.media.streams import Elsewhere, Watch, frames, seconds, sound_stream

BACK = (0.0, 10.0, 60.0, None)  # seconds before the part at which to look for a key frame; None: begin at the beginning
MARGIN = 10.0  # seconds by which one stream may lag behind the other in the file


@dataclass(frozen=True)
class Part:
    zero: float  # when the file begins, in seconds of its own clock
    start: float  # of the part, by the same clock
    end: float
    back: float | None

    @classmethod
    def of(cls, container: Any, request: Request, back: float | None) -> Part | None:
        """The part that the request is about; None: all of the file."""
        if request.part is None:
            return None
        zero = beginning(container)
        return cls(zero, zero + request.part[0], zero + request.part[1], back)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def enter(self, container: Any, stream: Any) -> None:
        """Go to a key frame at or before the part."""
        if self.back is None or self.start - self.back <= self.zero or not stream.time_base:
            return
        import av

        try:
            container.seek(int((self.start - self.back + TOLERANCE) / stream.time_base), stream=stream)
        except (av.FFmpegError, OSError, OverflowError):
            raise Elsewhere from None

    def require(self, found: bool) -> None:
        """What a jump did not find may be found from further back."""
        if not found and self.back is not None:
            raise Elsewhere

    def over(self, packet: Any) -> bool:
        """Whether this packet and all after it are shown after the part: nothing is shown before it is decoded."""
        stamp = packet.pts if packet.dts is None else packet.dts
        return stamp is not None and float(stamp * packet.time_base) >= self.end

    def on_screen(self, times: Sequence[float]) -> slice:
        """Which of the frames that appear at `times`, in seconds from the start of the part, are seen in it."""
        before = sum(time <= TOLERANCE for time in times)
        within = sum(time < self.seconds - TOLERANCE for time in times)
        return slice(max(before - 1, 0), within)


def within(part: Part, container: Any, streams: list[Any], watch: Watch) -> Iterator[Any]:
    """Decoded frames that are seen or heard in the part, the frame on screen at its start first; and complaints."""
    import av

    part.enter(container, streams[0])
    held = None  # the last picture that appeared at or before the start
    begun = False  # whether a picture was passed on
    over: set[str] = set()  # kinds of streams of which the part has no more
    counted = part.zero  # the time by counting pictures, for a file without times
    tick = float(1 / (getattr(streams[0], "average_rate", None) or 25))
    for frame in frames(container, streams, watch):
        if isinstance(frame, str):
            yield frame
            continue
        at = seconds(frame.pts, frame.time_base)
        part.require(at is not None)
        at = counted if at is None else at
        if at > part.end + MARGIN:
            break
        if at >= part.end - TOLERANCE:
            over.add(type(frame).__name__)
        if isinstance(frame, av.VideoFrame):
            counted += tick
            if at <= part.start + TOLERANCE:
                held = frame
                continue
            part.require(begun or held is not None)
            if held is not None:
                yield held
            held, begun = None, True
            if at < part.end - TOLERANCE:
                yield frame
        elif at < part.end and at + frame.samples / frame.sample_rate > part.start:
            yield frame
        if len(over) == len(streams):
            break
    if held is not None and _stays(held) > part.start:
        yield held


def _stays(frame: Any) -> float:
    """Until when a picture is on screen."""
    begins = seconds(frame.pts, frame.time_base) or 0.0
    return begins + (seconds(frame.duration, frame.time_base) or 0.04)


def beginning(container: Any) -> float:
    """When the file's first picture, or the sound of a file without pictures, begins."""
    from av.stream import Disposition

    shown = (each for each in container.streams.video if not each.disposition & Disposition.attached_pic)
    stream = next(shown, None) or sound_stream(container)
    return (seconds(stream.start_time, stream.time_base) if stream is not None else None) or 0.0
