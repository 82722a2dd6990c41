from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.media.subtitles import clock_time, parse_time, srt, vtt

CUES = [(0.0, 10.0, "a man is cooking"), (10.0, 3723.5, "two <b> & --> three"), (3723.5, 3725.0, "")]


@pytest.mark.parametrize("write", [srt, vtt])
def test_ffmpeg_reads_them(write: object, tmp_path: Path) -> None:
    program = shutil.which("ffprobe")
    if program is None:
        pytest.skip("needs FFmpeg's ffprobe, absent here: apt-get install ffmpeg")
    path = tmp_path / f"film.{write.__name__}"  # type: ignore[attr-defined]
    path.write_text("".join(write(CUES)), encoding="utf-8")  # type: ignore[operator]
    command = [program, "-v", "error", "-show_packets", "-show_streams", "-of", "json", str(path)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert [stream["codec_name"] for stream in told["streams"]] == ["subrip" if write is srt else "webvtt"]
    times = [(float(each["pts_time"]), float(each["duration_time"])) for each in told["packets"]]
    assert times == [(0.0, 10.0), (10.0, 3713.5), (3723.5, 1.5)]
    converted = subprocess.run(
        [shutil.which("ffmpeg") or "ffmpeg", "-v", "error", "-i", str(path), "-f", "srt", "-"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "a man is cooking" in converted.stdout
    assert converted.stderr == ""


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
