"""Part of a file, decoded as if it were a file of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.errors import UserError
from hoca.media import part, survey

from . import making

COUNT, RATE = 250, 25  # frames: 10 s
ALL = {"all": media.Pictures(range)}


def numbers(found: media.DecodedVideo) -> list[int]:
    return [making.number_on(frame) for frame in found.pictures["all"]]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("part") / "film.mp4"
    options = {"preset": "ultrafast", "g": "48", "bf": "3"}
    return making.video(path, "libx264", making.numbered(COUNT), options=options, rate=RATE, sound="aac")


@pytest.mark.parametrize(
    ("name", "codec", "options", "sound"),
    [
        ("a.mp4", "libx264", {"preset": "ultrafast", "g": "48", "bf": "3"}, "aac"),
        ("far.mp4", "libx264", {"preset": "ultrafast", "g": "1000", "bf": "3"}, "aac"),
        ("open.mkv", "libx264", {"preset": "ultrafast", "g": "48", "bf": "3", "x264-params": "open-gop=1"}, "aac"),
        ("a.ts", "mpeg2video", {"g": "30", "bf": "2", "q": "3"}, "mp2"),
        ("a.avi", "mpeg4", {"g": "40", "q": "3"}, "mp2"),
        ("a.webm", "libvpx", {"g": "60", "deadline": "realtime", "cpu-used": "8"}, ""),
        ("untimed.h264", "libx264", {"preset": "ultrafast", "g": "30"}, ""),
    ],
)
def test_a_part_has_the_frames_and_the_sound_of_its_time(
    tmp_path: Path, name: str, codec: str, options: dict[str, str], sound: str
) -> None:
    path = making.video(tmp_path / name, codec, making.numbered(COUNT), options=options, rate=RATE, sound=sound)
    assert media.decode(media.Request(path)).duration == pytest.approx(COUNT / RATE, abs=0.1)
    for start, end in ((0.0, 2.0), (2.0, 4.0), (6.64, 7.1), (9.0, math.inf)):
        found = media.decode(media.Request(path, ALL, 16000 if sound else None, part=(start, end)))
        first, last = math.floor(start * RATE + 0.01), min(math.ceil(end * RATE - 0.01), COUNT) if end < 99 else COUNT
        assert numbers(found) == list(range(first, last))
        assert found.frames == last - first
        assert found.times["all"][0] == pytest.approx(0.0, abs=0.001)
        assert found.duration == pytest.approx(min(end, COUNT / RATE) - start, abs=0.1)
        if sound:
            assert found.waveform is not None
            assert len(found.waveform) / 16000 == pytest.approx(min(end, COUNT / RATE) - start, abs=0.1)
            assert np.abs(found.waveform[1000:]).max() > 0.2  # the tone


def test_a_late_part_costs_no_more_than_an_early_one(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, read = [0], [0]
    frames, packets = part.frames, survey.packets
    counted: Callable[..., object] = lambda source, count: (  # noqa: E731
        lambda *given: (count.__setitem__(0, count[0] + 1) or each for each in source(*given))
    )
    monkeypatch.setattr(part, "frames", counted(frames, decoded))
    monkeypatch.setattr(survey, "packets", counted(packets, read))
    media.decode(media.Request(film, ALL, part=(8.0, 9.0)))
    assert decoded[0] <= 25 + 48 + 10  # the part, and up to a key frame before it
    assert read[0] <= 25 + 48 + 10


def test_a_picture_that_stays_is_seen_in_every_part(tmp_path: Path) -> None:
    """A recording of slides: the picture on screen began long before the part."""
    path = making.video(
        tmp_path / "slides.mkv", "libx264", making.numbered(4), ticks=[0, 10_000, 20_000, 21_000], rate=1
    )
    for start, end, seen in ((0, 5, [0]), (5, 10, [0]), (12, 18, [1]), (15, 20.5, [1, 2])):
        found = media.decode(media.Request(path, ALL, part=(start, end)))
        assert numbers(found) == seen
        assert found.duration <= end - start


def test_after_the_end_there_is_nothing(film: Path) -> None:
    with pytest.raises(UserError, match=r"film\.mp4: the pictures end before that"):
        media.decode(media.Request(film, ALL, part=(30.0, 40.0)))


def test_limits_are_for_the_part_and_not_for_the_film(film: Path) -> None:
    limits = media.DecodeLimits(seconds=5, frames=150)
    with pytest.raises(UserError, match="the limit of"):
        media.decode(media.Request(film, ALL), limits)
    with media.Decoders(1, limits) as decoders:
        assert decoders.decode(media.Request(film)).duration == pytest.approx(10.0, abs=0.1)
        assert decoders.decode(media.Request(film, ALL, part=(6.0, 8.0))).frames == 50
        with pytest.raises(UserError, match="the limit of"):
            decoders.decode(media.Request(film, ALL, part=(1.0, 9.0)))


def test_a_preview_of_a_part_is_of_that_part(film: Path) -> None:
    from hoca.media.preview import decode_with_preview

    wanted = media.Request(film, {"one": media.Pictures(media.Spread(1))}, 16000, 1.0, part=(4.0, 8.0))
    found, shown = decode_with_preview(wanted, media.decode, 4)
    assert making.number_on(found.pictures["one"][0]) == 150
    assert shown.clock.duration == pytest.approx(4.0, abs=0.05)
    assert [each.time for each in shown.thumbnails] == pytest.approx([0.48, 1.48, 2.48, 3.48], abs=0.05)
    assert shown.envelope
