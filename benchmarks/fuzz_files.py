"""Files for benchmarks/fuzz.py: small ones that are whole, and the ways to damage them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

LARGEST_SEED = 400_000  # bytes

Seed = tuple[str, bytes]


def real_seeds(data: Path) -> list[Seed]:
    files = sorted(path for kind in ("sample_videos/*.*", "msrvtt/clips/*") for path in data.glob(kind))
    small = [path for path in files if path.suffix != ".md" and path.stat().st_size <= LARGEST_SEED]
    stills = sorted(data.glob("images/samples/*.jpg"))[:3]
    return [(f"real-{path.name}", path.read_bytes()) for path in [*small[:40], *stills]]


VIDEO = [  # container, codec, pixel format, sound codec
    ("mp4", "libx264", "yuv420p", "aac"),
    ("mov", "prores_ks", "yuv422p10le", "pcm_s16le"),
    ("mkv", "libx265", "yuv420p10le", "flac"),
    ("webm", "libvpx-vp9", "yuv420p", "libopus"),
    ("webm", "libvpx", "yuv420p", "libopus"),
    ("mp4", "libsvtav1", "yuv420p", "aac"),
    ("avi", "mpeg4", "yuv420p", "libmp3lame"),
    ("avi", "mjpeg", "yuvj420p", "pcm_u8"),
    ("avi", "cinepak", "rgb24", ""),
    ("avi", "utvideo", "yuv420p", ""),
    ("ts", "mpeg2video", "yuv420p", "mp2"),
    ("ts", "libx264", "yuv420p", "ac3"),
    ("mpg", "mpeg1video", "yuv420p", "mp2"),
    ("flv", "flv", "yuv420p", "libmp3lame"),
    ("asf", "wmv2", "yuv420p", ""),
    ("rm", "rv20", "yuv420p", ""),
    ("mxf", "mpeg2video", "yuv422p", ""),
    ("nut", "ffv1", "yuva420p", "pcm_f32le"),
    ("mkv", "snow", "yuv420p", ""),
    ("mov", "qtrle", "rgb24", ""),
    ("mov", "jpeg2000", "yuv420p", ""),
    ("y4m", "rawvideo", "yuv420p", ""),
    ("h264", "libx264", "yuv420p", ""),
    ("ogv", "libvpx", "yuv420p", "flac"),
    ("apng", "apng", "rgba", ""),
    ("gif", "gif", "rgb8", ""),
]
SOUND = [
    ("wav", "pcm_s24le"),
    ("mp3", "libmp3lame"),
    ("flac", "flac"),
    ("ogg", "libopus"),
    ("m4a", "alac"),
    ("wv", "wavpack"),
]


def made_seeds(folder: Path) -> Iterator[Seed]:
    for container, codec, pixels, sound in VIDEO:
        yield f"{codec}.{container}", make(folder / f"seed.{container}", codec, pixels, sound)
    for container, codec in SOUND:
        yield f"{codec}.{container}", make(folder / f"seed.{container}", "", "", codec)


def make(path: Path, codec: str, pixels: str, sound: str) -> bytes:
    """A second of a moving ramp, and a tone."""
    import av

    quiet = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    ramp = np.add.outer(np.arange(64), np.arange(96))[..., None] * [1, 2, 3]  # [64, 96, 3]
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with av.open(str(path), "w") as output:
        picture: Any = output.add_stream(codec, rate=25, options=quiet) if codec else None
        voice: Any = output.add_stream(sound, rate=48000) if sound else None
        if picture:
            picture.width, picture.height, picture.pix_fmt = 96, 64, pixels
            for number in range(25):
                frame = av.VideoFrame.from_ndarray((ramp + 5 * number).astype(np.uint8), format="rgb24")
                output.mux(picture.encode(frame))
            output.mux(picture.encode(None))
        if voice:
            context = voice.codec_context
            wave = np.sin(np.arange(48000) / 20).astype(np.float32)[None]  # [1, samples]
            piece = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 48000, 0, Fraction(1, 48000)
            fitting = av.AudioResampler(context.format, context.layout, 48000, frame_size=context.frame_size or 960)
            for part in [*fitting.resample(piece), *fitting.resample(None)]:
                output.mux(voice.encode(part))
            output.mux(voice.encode(None))
    os.sched_setscheduler(0, policy, priority)  # SVT-AV1, where root runs it, puts its caller above everything else
    content = path.read_bytes()
    path.unlink()
    return content


Damage = Callable[[bytearray, bytes, random.Random], bytearray]


def flip_bits(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    for _ in range(2 ** chance.randrange(10)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content


def flip_in_header(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    for _ in range(2 ** chance.randrange(5)):
        content[chance.randrange(min(len(content), 1024))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    return content


def cut(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    return content[: chance.randrange(1, len(content))]


def behead(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    return content[chance.randrange(1, len(content)) :]


def splice(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    start, end = sorted(chance.randrange(len(other) + 1) for _ in range(2))
    place = chance.randrange(len(content))
    keep = place if chance.random() < 0.5 else min(place + end - start, len(content))
    return content[:place] + other[start:end] + content[keep:]


def swap_header(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    length = 2 ** chance.randrange(2, 14)
    return bytearray(other[:length]) + content[length:]


def blank(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    start = chance.randrange(len(content))
    length = min(2 ** chance.randrange(1, 16), len(content) - start)
    content[start : start + length] = bytes([chance.choice((0, 255))]) * length
    return content


def repeat(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    start = chance.randrange(len(content))
    piece = content[start : start + 2 ** chance.randrange(1, 14)]
    return content[:start] + piece * chance.randrange(2, 20) + content[start:]


def inflate_number(content: bytearray, other: bytes, chance: random.Random) -> bytearray:
    """Four bytes that may be a size or a count become a large, a negative or an odd one."""
    place = chance.randrange(max(1, min(len(content), 8192) - 4))
    value = chance.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x10000, chance.randrange(2**32)))
    content[place : place + 4] = value.to_bytes(4, chance.choice(("big", "little")))
    return content


DAMAGES: list[Damage] = [
    flip_bits, flip_in_header, cut, behead, splice, swap_header, blank, repeat, inflate_number,
]  # fmt: skip
