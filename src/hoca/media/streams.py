"""The streams of a container and the frames in them, whatever state they are in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoca.errors import UnreadableVideo
from hoca.files import in_units, printable
from hoca.media.request import DecodeLimits
from hoca.media.source import reason


@dataclass(frozen=True)
class Watch:
    """Holds the decoding of one file to its limits."""

    path: Path
    limits: DecodeLimits
    deadline: float

    @classmethod
    def start(cls, path: Path, limits: DecodeLimits) -> Watch:
        return cls(path, limits, time.monotonic() + limits.decode_seconds)

    def refuse(self, what: str) -> UnreadableVideo:
        return UnreadableVideo(f"{printable(self.path)} {what}")

    def clock(self) -> None:
        if time.monotonic() > self.deadline:
            raise self.refuse(f"takes longer to decode than the limit of {self.limits.decode_seconds:g} s")

    def count(self, frames: int) -> None:
        self.clock()
        if frames > self.limits.frames:
            raise self.refuse(f"has more frames than the limit of {self.limits.frames}")

    def size(self, width: int, height: int) -> None:
        if width * height > self.limits.pixels:
            raise self.refuse(f"has pictures of {width}×{height}, more than the limit of {self.limits.pixels:,} pixels")

    def span(self, seconds: float) -> None:
        if seconds > self.limits.seconds:
            raise self.refuse(f"plays for {seconds:.0f} s, longer than the limit of {self.limits.seconds:g} s")

    def room(self, wanted: int) -> None:
        if wanted > self.limits.memory:
            limit = in_units(self.limits.memory)
            raise self.refuse(f"needs {in_units(wanted)} for the pictures asked for, more than the limit of {limit}")


class Elsewhere(Exception):
    """Jumping did not lead to the frames that the packets announce."""


def seconds(ticks: int | None, base: Any) -> float | None:
    """How long so many ticks of a clock take; None if either is unknown."""
    return None if ticks is None or not base or not base.denominator else ticks * base.numerator / base.denominator


def picture_stream(container: Any, watch: Watch, threads: int) -> Any | None:
    """The first stream of moving (or still) pictures; the cover of a song is none."""
    from av.stream import Disposition

    for stream in container.streams.video:
        if stream.codec_context is None or stream.disposition & Disposition.attached_pic:
            continue
        watch.size(stream.codec_context.width, stream.codec_context.height)
        exact = {"idct": "int"} if stream.codec_context.name == "mjpeg" else {}  # as libjpeg has it
        stream.codec_context.options = {"max_pixels": str(watch.limits.pixels)} | exact
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        return stream
    return None


def sound_stream(container: Any) -> Any | None:
    return next((stream for stream in container.streams.audio if stream.codec_context is not None), None)


def packets(container: Any, streams: list[Any], watch: Watch) -> Iterator[Any]:
    """The packets of the streams up to the end or to what cannot be read; that complaint comes as text at the end."""
    import av

    source = container.demux(streams)
    while True:
        watch.clock()
        try:
            packet = next(source)
        except StopIteration:
            return
        except IndexError:  # PyAV does not know streams that appear on the way, and stumbles over them at the end
            yield ""
            return
        except (av.FFmpegError, OSError, ValueError) as error:  # also for memory: a packet that claims to be huge
            yield reason(error)
            return
        yield packet


def frames(container: Any, streams: list[Any], watch: Watch) -> Iterator[Any]:
    """Decoded frames of the streams; a packet that cannot be decoded yields its complaint as text, the rest follows."""
    cut = False
    for packet in packets(container, streams, watch):
        if isinstance(packet, str):
            yield packet
            cut = True
        else:
            yield from _decoded(packet.decode)
    if cut:  # no flushing packets came: take what the decoders still hold
        for stream in streams:
            yield from _decoded(stream.codec_context.decode)


def _decoded(decode: Any) -> list[Any]:
    import av

    try:
        return decode()
    except MemoryError:
        raise
    except EOFError:  # the decoder has been flushed before
        return []
    except (av.FFmpegError, OSError, ValueError) as error:
        return [reason(error)]
