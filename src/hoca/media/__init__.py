"""Decoding and writing of video files. PyAV is imported when a file is read or written, not before."""

from hoca.media.clip import Clip
from hoca.media.clock import Clock
from hoca.media.decode import decode
from hoca.media.pool import Decoders
from hoca.media.preview import Preview, preview
from hoca.media.read import read
from hoca.media.request import AtTimes, Decoded, Failure, First, Limits, Pictures, Request, Spread
from hoca.media.write import write

__all__ = [
    "AtTimes",
    "Clip",
    "Clock",
    "Decoded",
    "Decoders",
    "Failure",
    "First",
    "Limits",
    "Pictures",
    "Preview",
    "Request",
    "Spread",
    "decode",
    "preview",
    "read",
    "write",
]
