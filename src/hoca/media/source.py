"""Open a local file, and nothing else, for decoding."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hoca.errors import UnreadableVideo
from hoca.files import in_units, printable
from hoca.media.request import DecodeLimits

# Kinds of "media" that are lists or descriptions of other files, devices, or text that FFmpeg would draw.
LISTS = "concat,dash,hds,hls,image2,imf,mlv,rtp,rtp_mpegts,rtsp,sap,sdp,smoothstreaming,vobsub,webm_dash_manifest"
DEVICES = "alsa,fbdev,kmsgrab,lavfi,oss,v4l2,video4linux2,x11grab"
TEXT = "adf,bin,ffmetadata,idf,sbg,svg_pipe,tty,xbin"


def reason(error: BaseException) -> str:
    """The decoder's complaint in one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


def unopened(path: Path, error: OSError | ValueError) -> str:
    """Why a file cannot be opened: what follows its name in a sentence."""
    if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ELOOP) and os.path.islink(path):
        return "is a link whose target is not there" + (" (links in a circle)" if error.errno == errno.ELOOP else "")
    return "is not there" if isinstance(error, FileNotFoundError) else f"cannot be opened ({reason(error)})"


@contextmanager
def opened(path: Path, limits: DecodeLimits) -> Iterator[Any]:
    """The container in a regular file of acceptable size.

    FFmpeg gets a descriptor, not the name, and no protocol but that one: neither the name nor the content can make it
    open anything else.
    """
    import av

    descriptor = _descriptor(path, limits)
    try:
        options = {"fd": str(descriptor), "protocol_whitelist": "fd", "format_whitelist": _formats()}
        try:
            container = av.open("fd:", metadata_errors="ignore", options=options)
        except av.error.ArgumentError:
            raise UnreadableVideo(
                f"{printable(path)} is no video, or a list that points to other files: give the video file itself"
            ) from None
        except (av.FFmpegError, ValueError, OSError) as error:
            raise UnreadableVideo(
                f"{printable(path)} is not a video that can be read ({reason(error)}): is the file whole?"
            ) from None
        with container:
            yield container
    finally:
        os.close(descriptor)


def _descriptor(path: Path, limits: DecodeLimits) -> int:
    try:
        # Non-blocking, or opening a named pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise UnreadableVideo(f"{printable(path)} {unopened(path, error)}: give the path of a video file") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UnreadableVideo(f"{printable(path)} is {what}: give the path of a video file")
        if status.st_size == 0:
            raise UnreadableVideo(f"{printable(path)} is not a video: the file is empty (0 bytes)")
        if status.st_size > limits.bytes:
            raise UnreadableVideo(
                f"{printable(path)} has {in_units(status.st_size)}, more than the limit of {in_units(limits.bytes)}"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@cache
def _formats() -> str:
    import av

    names = {name for names in av.formats_available for name in names.split(",")}
    return ",".join(sorted(names - set(f"{LISTS},{DEVICES},{TEXT}".split(","))))
