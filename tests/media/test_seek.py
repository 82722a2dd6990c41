from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.media import seek

from . import making

COUNT = 2400
WANTED = {
    "spread": media.Pictures(media.Spread(7)),
    "first": media.Pictures(media.First(50)),
    "times": media.Pictures(media.AtTimes((3.3, 200.05, 77.7, 77.7))),
}


@pytest.fixture
def jumped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call so far took the frames by jumping; the code under test is run as it is."""
    calls: list[bool] = []
    take = seek.take

    def noted(*arguments: object) -> None:
        calls.append(False)
        take(*arguments)  # type: ignore[arg-type]
        calls[-1] = True

    monkeypatch.setattr(seek, "take", noted)
    return calls


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"preset": "veryfast", "g": "48", "bf": "3"}),
        ("open.mkv", "libx264", {"preset": "veryfast", "g": "48", "bf": "3", "x264-params": "open-gop=1"}),
        ("a.ts", "mpeg2video", {"g": "30", "bf": "2", "q": "3"}),
        ("a.avi", "mpeg4", {"g": "40", "q": "3"}),
        ("a.mkv", "libx265", {"preset": "ultrafast", "x265-params": "keyint=40:log-level=none"}),
        ("a.webm", "libvpx", {"g": "60", "deadline": "realtime", "cpu-used": "8"}),
        ("a.mpg", "mpeg2video", {"g": "30", "bf": "2"}),
        ("a.flv", "flv", {"g": "30", "q": "3"}),
    ],
)
def test_jumping_gives_the_frames_that_decoding_everything_gives(
    tmp_path: Path, jumped: list[bool], monkeypatch: pytest.MonkeyPatch, name: str, codec: str, options: dict[str, str]
) -> None:
    path = making.video(tmp_path / name, codec, making.numbered(COUNT), options=options, rate=25, bit_rate=400_000)
    quick = media.decode(media.Request(path, WANTED))
    assert jumped == [name != "a.mpg"]  # a program stream leads elsewhere, which is noticed, and it is streamed
    monkeypatch.setattr(seek, "LONG", 10**9)
    whole = media.decode(media.Request(path, WANTED))
    assert len(jumped) == 1
    assert quick.frames == whole.frames == COUNT
    for kind in WANTED:
        np.testing.assert_array_equal(quick.pictures[kind], whole.pictures[kind])
        np.testing.assert_allclose(quick.times[kind], whole.times[kind])
    assert [making.number_on(frame) for frame in quick.pictures["spread"]] == media.Spread(7)(COUNT)
    assert quick.duration == pytest.approx(whole.duration, abs=0.1)


def test_sound_starts_with_the_first_picture_of_a_long_file_too(tmp_path: Path, jumped: list[bool]) -> None:
    """The first picture comes after a third of a second, and so much of the sound is cut."""
    ticks = [333 + 40 * number for number in range(COUNT)]
    path = tmp_path / "late.mkv"
    frames = making.numbered(COUNT, 16, 64)
    making.video(
        path, "libx264", frames, ticks=ticks, rate=25, sound="flac", options={"preset": "ultrafast", "g": "48"}
    )
    both = media.decode(media.Request(path, {"spread": media.Pictures(media.Spread(7))}, 16000))
    assert jumped == [True]
    alone = media.decode(media.Request(path, rate=16000))
    assert both.waveform is not None
    assert alone.waveform is not None
    np.testing.assert_allclose(both.waveform, alone.waveform[round(0.333 * 16000) :], atol=1e-3)
    np.testing.assert_allclose(both.times["spread"], 0.04 * np.array(media.Spread(7)(COUNT)), atol=1e-3)


def test_where_everything_is_wanted_nothing_is_skipped(tmp_path: Path, jumped: list[bool]) -> None:
    path = making.video(tmp_path / "a.mp4", "libx264", making.numbered(COUNT), options={"preset": "ultrafast"})
    media.decode(media.Request(path, {"most": media.Pictures(media.Spread(1500), (8, 16))}))
    assert jumped == []


def test_hours_take_little_memory_and_time(tmp_path: Path, jumped: list[bool]) -> None:
    """Two hours at one frame a second, a minute of sound: 20 pictures and the first ten seconds of sound."""
    path = tmp_path / "long.mkv"
    making.video(path, "libx264", making.numbered(7200, 16, 64), rate=1, sound="flac", options={"preset": "ultrafast"})
    wanted = {"image": media.Pictures(media.Spread(20), (26, 26))}
    found = media.decode(media.Request(path, wanted, 22050, sound_seconds=10))
    assert jumped == [True]
    assert found.frames == 7200
    assert found.duration == pytest.approx(7200, abs=1)
    assert found.waveform is not None
    assert len(found.waveform) == 220_500
