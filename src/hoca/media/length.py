"""How long a file plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hoca.media.part import beginning
from hoca.media.source import opened
from hoca.media.streams import Watch, packets, picture_stream, seconds, sound_stream

NEAR = 20.0  # seconds before the announced end from which on packets are read


def length(path: Path, watch: Watch) -> float:
    """Seconds from the first picture to where the last packet ends. The announced length is not believed, but it tells
    where to look; where that leads nowhere, every packet is read."""
    import av

    with opened(path, watch.limits) as container:
        announced = container.duration
        if announced is not None and announced > 2 * NEAR * av.time_base:
            try:
                container.seek(int((container.start_time or 0) + announced - NEAR * av.time_base))
                if (found := _end(container, watch)) > 0:
                    return found
            except (av.FFmpegError, OSError, OverflowError):
                pass
    with opened(path, watch.limits) as container:
        return _end(container, watch)


def _end(container: Any, watch: Watch) -> float:
    zero, last, count = beginning(container), 0.0, 0
    picture = picture_stream(container, watch, 1)
    streams = [stream for stream in (picture, sound_stream(container)) if stream is not None]
    if not streams:
        raise watch.refuse("has neither pictures nor sound: give a video file")
    interval = 1 / float(picture.average_rate or 25) if picture is not None else 0.0
    for packet in packets(container, streams, watch):
        if isinstance(packet, str) or not packet.size or packet.is_discard:
            continue
        count += packet.stream is picture
        if (begins := seconds(packet.pts, packet.time_base)) is not None:
            last = max(last, begins + (seconds(packet.duration, packet.time_base) or 0.0) - zero)
    return last or count * interval
