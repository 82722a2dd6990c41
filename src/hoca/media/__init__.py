"""Decoding and writing of video files. PyAV is imported when a file is read or written, not before."""

from hoca.media.clip import Clip
from hoca.media.read import read
from hoca.media.write import write

__all__ = ["Clip", "read", "write"]
