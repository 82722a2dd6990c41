"""Small files in many codecs and containers, and things that a decoding process should survive."""

from __future__ import annotations

import os
import signal
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np


@contextmanager
def ordinary_priority() -> Iterator[None]:
    """SVT-AV1, where root runs it, puts its caller above everything else on the machine, for good."""
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)


def moving_square(count: int = 30, height: int = 48, width: int = 64) -> np.ndarray:
    frames = np.full((count, height, width, 3), 30, np.uint8)
    for number, frame in enumerate(frames):
        left = number % (width - 16)
        frame[height // 3 : height // 3 + 16, left : left + 16] = (220, 40, 40)
    return frames


def numbered(count: int, height: int = 32, width: int = 64) -> np.ndarray:
    """Frames that carry their number as bars, black or white, so that it survives any codec."""
    frames = np.zeros((count, height, width, 3), np.uint8)
    for bit in range(16):
        frames[(np.arange(count) >> bit & 1).astype(bool), :, bit * width // 16 : (bit + 1) * width // 16] = 255
    return frames


def number_on(frame: np.ndarray) -> int:
    bars = np.array_split(frame.mean(axis=(0, 2)), 16)
    return sum(int(bar.mean() > 110) << bit for bit, bar in enumerate(bars))


def tone(seconds: float, hertz: float = 440, rate: int = 16000) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def video(
    path: Path,
    codec: str,
    frames: np.ndarray,
    *,
    pixels: str = "yuv420p",
    ticks: Sequence[int] | None = None,
    rate: int = 10,
    sound: str = "",
    options: dict[str, str] | None = None,
    **settings: Any,
) -> Path:
    """Write `frames` [F, height, width, 3 or 4]; `ticks`: when each appears, in 1/1000 s (else `rate` a second)."""
    with ordinary_priority(), av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], pixels
        for name, value in settings.items():
            setattr(stream.codec_context, name, value)
        if ticks is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        voice: Any = container.add_stream(sound, rate=16000) if sound else None
        kind = "rgba" if frames.shape[-1] == 4 else "rgb24"
        for number, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format=kind)
            if ticks is not None:
                frame.pts, frame.time_base = ticks[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound:
            wave = tone(min(len(frames) / rate, 60))[None]
            piece = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 16000, 0, Fraction(1, 16000)
            resampler = av.AudioResampler(
                voice.codec_context.format, voice.codec_context.layout, 16000, frame_size=1024
            )
            for part in [*resampler.resample(piece), *resampler.resample(None)]:
                container.mux(voice.encode(part))
            container.mux(voice.encode(None))
    return path


def sound(path: Path, codec: str, samples: np.ndarray, rate: int = 16000) -> Path:
    """Write `samples` [channels, samples] in [-1, 1] in the codec's own sample format."""
    layout = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}[len(samples)]
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate, layout=layout)
        packed = np.ascontiguousarray(samples.T, np.float32).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        context = stream.codec_context
        resampler = av.AudioResampler(context.format, context.layout, rate, frame_size=context.frame_size or 1024)
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return path


def many_channels(path: Path, channels: int = 255) -> Path:
    """A clip of ten pictures with sound of more channels than a decoder takes."""
    samples = bytes(2 * channels * 8000)
    form = struct.pack("<IHHIIHH", 16, 1, channels, 8000, 8000 * channels * 2, channels * 2, 16)
    wav = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(samples)) + samples
    sounding = path.with_suffix(".wav")
    sounding.write_bytes(b"RIFF" + struct.pack("<I", len(wav)) + wav)
    with av.open(str(sounding)) as sound, av.open(str(path), "w") as out:
        pictures: Any = out.add_stream("mpeg4", rate=10, width=64, height=64, pix_fmt="yuv420p")
        copied = out.add_stream_from_template(sound.streams.audio[0])
        frames = [av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24") for _ in range(10)]
        for packet in [packet for frame in [*frames, None] for packet in pictures.encode(frame)]:
            out.mux(packet)
        for packet in sound.demux():
            if packet.dts is not None:
                packet.stream = copied
                out.mux(packet)
    sounding.unlink()
    return path


def huge_picture(path: Path, side: int = 60_000) -> Path:
    """A small PNG file that claims to be a huge picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b""))
    return path


def with_matrix(path: Path, a: int, b: int, c: int, d: int) -> Path:
    """Change the display matrix of the first track of an MP4 file in place."""
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 44  # after version, times, track, duration, layer and volume
    one = 1 << 16
    content[place : place + 36] = struct.pack(">9i", a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    return path


def crash(frame: np.ndarray) -> np.ndarray:
    os.kill(os.getpid(), signal.SIGSEGV)
    return frame


def crash_late(frame: np.ndarray) -> np.ndarray:
    """The first time; the second time it takes longer than what is left."""
    time.sleep(7.5)
    os.kill(os.getpid(), signal.SIGSEGV)
    return frame


@dataclass(frozen=True)
class CrashOnce:
    """In the first process that comes here, as if somebody had killed it."""

    mark: Path

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return frame


def hang(frame: np.ndarray) -> np.ndarray:
    time.sleep(600)
    return frame


def devour(frame: np.ndarray) -> np.ndarray:
    return np.ones(10**11, np.uint8)


def halve(frame: np.ndarray) -> np.ndarray:
    return frame[::2, ::2]


def torch_is_loaded(frame: np.ndarray) -> np.ndarray:
    import sys

    return np.array(["torch" in sys.modules])
