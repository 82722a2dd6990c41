"""What the packets of the picture stream say about its frames, without decoding one."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hoca.media.part import Part
from hoca.media.request import TOLERANCE
from hoca.media.streams import Watch, packets


@dataclass
class Survey:
    count: int = 0
    times: list[float] = field(default_factory=list)  # of each frame, from the first one on; a guess until decoded
    stamps: list[int] = field(default_factory=list)  # the same in ticks of the stream; empty: not known for all
    keys: list[tuple[int, int]] = field(default_factory=list)  # (presentation, decoding) stamps of key frames, in order

    def key_before(self, stamp: int) -> tuple[int, int] | None:
        """The key frame from which the frame shown at `stamp` can be decoded."""
        place = bisect_right(self.keys, stamp, key=lambda key: key[0])
        return self.keys[place - 1] if place else None


def survey(container: Any, stream: Any, watch: Watch, part: Part | None = None) -> Survey:
    """Every packet is read, or every one of a part, which takes a hundredth of the time of decoding it."""
    count, stamps, keys = 0, [], []
    if part is not None:
        part.enter(container, stream)
    for packet in packets(container, [stream], watch):
        if isinstance(packet, str) or not packet.size or packet.is_discard:
            continue
        if part is not None and part.over(packet):
            break
        count += 1
        watch.count(count)
        if packet.pts is not None:
            stamps.append(packet.pts)
            if packet.is_keyframe:
                keys.append((packet.pts, packet.pts if packet.dts is None else packet.dts))
    stamps.sort()
    tick = Fraction(stream.time_base or 1)
    known = len(stamps) == count and len(set(stamps)) == count
    if part is not None:
        part.require(known and bool(keys) and keys[0][0] * tick <= part.start + TOLERANCE)
    if known:
        first = part.start * tick.denominator / tick.numerator if part is not None else min(stamps, default=0)
        times = [(stamp - first) * tick.numerator / tick.denominator for stamp in stamps]
    else:
        stamps = []
        rate = stream.average_rate or 25
        times = [float(number / rate) - (part.start - part.zero if part else 0.0) for number in range(count)]
    if part is not None:
        shown = part.on_screen(times)
        stamps, times = stamps[shown], [max(time, 0.0) for time in times[shown]]
    if times:
        watch.span(times[-1])
    return Survey(len(times), times, stamps, sorted(keys))
