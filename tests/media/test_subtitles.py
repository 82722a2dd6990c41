from __future__ import annotations

from pathlib import Path

import av
import pytest

from hoca.errors import UserError
from hoca.media.subtitles import clock_time, parse_time, srt, vtt

CUES = [(0.0, 10.0, "a man is cooking"), (10.0, 3723.5, "two <b> & --> three"), (3723.5, 3725.0, "")]


@pytest.mark.parametrize("write", [srt, vtt])
def test_ffmpeg_reads_them(write: object, tmp_path: Path) -> None:
    """By its libraries, which PyAV carries."""
    path = tmp_path / f"film.{write.__name__}"  # type: ignore[attr-defined]
    path.write_text("".join(write(CUES)), encoding="utf-8")  # type: ignore[operator]
    with av.open(str(path)) as file:
        stream = file.streams.subtitles[0]
        assert stream.codec_context.name in (("srt", "subrip") if write is srt else ("webvtt",))
        packets = [packet for packet in file.demux(stream) if packet.pts is not None]
        times = [(float(each.pts * each.time_base), float(each.duration * each.time_base)) for each in packets]
        words = [said.ass.decode() for packet in packets for said in packet.decode()]
    assert times == [(0.0, 10.0), (10.0, 3713.5), (3723.5, 1.5)]
    assert words[0].endswith("a man is cooking")


def test_times_are_written_as_people_write_them() -> None:
    assert [clock_time(x) for x in (0, 5.99, 65, 2045, 3723, 36000)] == [
        *("0:00", "0:05", "1:05", "34:05", "1:02:03", "10:00:00")
    ]


def test_times_are_read_as_people_write_them() -> None:
    assert [parse_time(x, "--start") for x in ("75.5", "34:05", "90:00", "1:02:03", "0:00.25")] == [
        *(75.5, 2045.0, 5400.0, 3723.0, 0.25)
    ]
    for wrong in ("", "-1", "5:70", "1:2:3:4", "a", "1:75:00", "nan", "1e3"):
        with pytest.raises(UserError, match=r"--start .* is no time: give seconds \(75.5\), 34:05 or 1:02:03"):
            parse_time(wrong, "--start")
