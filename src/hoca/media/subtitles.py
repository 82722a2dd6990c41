"""Sentences with their times as files that players and editors read: SRT and WebVTT. And times as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hoca.errors import UserError

Cue = tuple[float, float, str]  # seconds (start, end), and what is shown meanwhile


def srt(cues: Iterable[Cue]) -> Iterator[str]:
    """SubRip, a piece of text for each cue."""
    for number, (start, end, text) in enumerate(cues, start=1):
        yield f"{number}\n{_exact(start, ',')} --> {_exact(end, ',')}\n{_one_line(text)}\n\n"


def vtt(cues: Iterable[Cue]) -> Iterator[str]:
    """WebVTT, a piece of text for its head and for each cue."""
    yield "WEBVTT\n\n"
    for start, end, text in cues:
        shown = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        yield f"{_exact(start, '.')} --> {_exact(end, '.')}\n{shown}\n\n"


def clock_time(seconds: float) -> str:
    """0:05, 34:05, 1:02:03: whole seconds that have passed."""
    whole = int(seconds + 1e-6)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def parse_time(text: str, name: str) -> float:
    """Seconds, or 34:05 or 1:02:03, each with or without a fraction; `name` is the option that gave it."""
    if not re.fullmatch(r"(\d{1,3}:[0-5]?\d:[0-5]\d|\d{1,4}:[0-5]\d|\d{1,7})(\.\d+)?", text):
        raise UserError(f"{name} {text[:40]!r} is no time: give seconds (75.5), 34:05 or 1:02:03")
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def _exact(seconds: float, point: str) -> str:
    """HH:MM:SS and milliseconds."""
    milliseconds = round(1000 * seconds)
    whole = milliseconds // 1000
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds % 1000:03}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("-->", "->") or "…"
