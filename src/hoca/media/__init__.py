"""Decoding and writing of video files. PyAV is imported when a file is read or written, not before."""

from hoca.media.clip import Clip
from hoca.media.clock import Clock
from hoca.media.decode import decode
from hoca.media.pool import Decoders
from hoca.media.preview import Preview, preview
from hoca.media.read import read
from hoca.media.request import AtTimes, DecodedVideo, DecodeLimits, Failure, First, Pictures, Request, Spread
from hoca.media.write import write

__all__ = [
    "AtTimes",
    "Clip",
    "Clock",
    "DecodeLimits",
    "DecodedVideo",
    "Decoders",
    "Failure",
    "First",
    "Pictures",
    "Preview",
    "Request",
    "Spread",
    "decode",
    "preview",
    "read",
    "write",
]
