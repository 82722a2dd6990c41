"""Long films on the command line and in Python: a sentence for each segment, in every format, resumed, in a report."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import hoca as package
from hoca.captioning import Caption, Segment, VideoCaptioner
from hoca.captioning.segments import merged
from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.media import DecodeLimits
from hoca.models import Explanation

from .conftest import Command
from .explain.trained import fit, prepare
from .media import making

RATE = 5


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("long") / "data")


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(data, tmp_path_factory.mktemp("long") / "run", epochs=3)


@pytest.fixture(scope="module")
def captioner(run: Path) -> Iterator[VideoCaptioner]:
    loaded = package.load(run)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """70 seconds: three shots of 20 s, 30 s and 20 s, with sound for the first 60."""
    square = making.moving_square(70 * RATE)
    colours = np.repeat([(200, 40, 40), (40, 200, 40), (40, 40, 200)], [20 * RATE, 30 * RATE, 20 * RATE], axis=0)
    frames = np.where(square == 30, colours[:, None, None].astype(np.uint8), square)
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    return making.video(path, "libx264", frames, rate=RATE, sound="aac", options={"preset": "ultrafast", "g": "20"})


def said(start: float, end: float, text: str, confidence: float | None = None) -> Segment:
    caption = Caption(text, tuple(text.split()), -1.0, confidence, Explanation(), (), {}, {})
    return Segment(start, end, caption, (start, end))


class TestPython:
    def test_segments_come_as_they_are_made_and_cover_the_film(self, captioner: VideoCaptioner, film: Path) -> None:
        found = []
        for segment in captioner.segments(film, every=10):
            found.append(segment)
        assert found[0].start == 0.0
        assert found[-1].end == pytest.approx(70.0, abs=0.1)
        for before, after in pairwise(found):
            assert before.end == after.start
            assert before.text != after.text
        assert all((s.end - s.start) % 10 == pytest.approx(0, abs=0.1) or s is found[-1] for s in found)

    def test_a_segment_says_what_the_same_seconds_as_a_file_would(
        self, captioner: VideoCaptioner, film: Path, tmp_path: Path
    ) -> None:
        (segment,) = captioner.segments(film, every=10, start=20, end=30)
        frames = np.where((square := making.moving_square(70 * RATE)) == 30, np.array((40, 200, 40), np.uint8), square)
        alone = making.video(
            tmp_path / "alone.mp4",
            "libx264",
            frames[20 * RATE : 30 * RATE],
            rate=RATE,
            sound="aac",
            options={"g": "20"},
        )
        assert segment.text == captioner.caption(alone).text
        assert (segment.start, segment.end, segment.watched) == (20, 30, (20, 30))
        assert captioner.caption(film, start=20, end=30).text == segment.text

    def test_scenes_begin_at_cuts(self, captioner: VideoCaptioner, film: Path) -> None:
        bounds = {round(s.start) for s in captioner.segments(film, scenes=True)}
        assert {20, 50} <= bounds

    def test_limits_hold_for_each_segment(self, captioner: VideoCaptioner, film: Path) -> None:
        captioner.limits = DecodeLimits(seconds=15, frames=100)
        try:
            with pytest.raises(UserError, match="the limit of"):
                captioner.caption(film)
            assert list(captioner.segments(film, every=10))
            with pytest.raises(UserError, match="the limit of"):
                list(captioner.segments(film, every=30))
        finally:
            captioner.limits = None

    def test_neighbours_that_say_the_same_are_one(self) -> None:
        parts = [said(0, 10, "a", 0.3), said(10, 20, "a", 0.6), said(20, 30, "b"), said(40, 50, "b"), said(50, 60, "a")]
        found = [(each.start, each.end, each.text) for each in merged(parts)]
        assert found == [(0, 20, "a"), (20, 30, "b"), (40, 50, "b"), (50, 60, "a")]
        first = next(merged(parts))
        assert (first.watched, first.caption.confidence) == ((10, 20), 0.6)  # the surer one

    def test_each_comes_when_the_next_is_known_and_no_later(self) -> None:
        asked: list[int] = []

        def endless() -> Iterator[Segment]:
            for number in range(10**9):
                asked.append(number)
                yield said(number, number + 1, str(number))

        source = merged(endless())
        assert next(source).text == "0"
        assert asked == [0, 1]

    def test_what_cannot_be_cut_is_said(self, captioner: VideoCaptioner, film: Path) -> None:
        for options, message in (
            ({}, "give either every=SECONDS or scenes=True"),
            ({"every": 10, "scenes": True}, "give either"),
            ({"every": 0.1}, "every: a segment lasts 1 s or more, not 0.1"),
            ({"every": 5, "start": 80}, "plays for 1:1.: the start 1:20 is after its end"),
            ({"every": 5, "start": 8, "end": 4}, "the end 0:04 is not after the start 0:08"),
        ):
            with pytest.raises(UserError, match=message):
                next(captioner.segments(film, **options))  # type: ignore[arg-type]


class TestCommand:
    def test_text_has_times_and_one_line_a_segment(self, hoca: Command, film: Path, run: Path) -> None:
        result = hoca("caption", film, "--model", run, "--every", "10", "--start", "0:20", "--end", "1:05")
        assert result.code == 0
        lines = result.out.splitlines()
        assert lines[0].startswith("0:20–")
        assert lines[-1].split()[0].endswith("–1:05")

    def test_every_format_tells_the_same(self, hoca: Command, film: Path, run: Path, tmp_path: Path) -> None:
        told = {}
        for format in ("json", "csv", "srt", "vtt"):
            out = tmp_path / f"film.{format}"
            result = hoca("caption", film, "--model", run, "--every", "20", "--format", format, "--out", out)
            assert (result.code, result.out) == (0, "")
            told[format] = out.read_text(encoding="utf-8")
        assert sorted(os.listdir(tmp_path)) == ["film.csv", "film.json", "film.srt", "film.vtt"]  # no partial is left
        rows = [json.loads(line) for line in told["json"].splitlines()]
        assert (rows[0]["video"], rows[0]["start"]) == (str(film), 0.0)
        read = list(csv.DictReader(io.StringIO(told["csv"])))
        assert [(float(row["start"]), row["text"]) for row in read] == [(row["start"], row["text"]) for row in rows]
        for format in ("srt", "vtt"):
            assert told[format].count(" --> ") == len(rows)
            assert all(row["text"] in told[format] for row in rows)
        assert hoca("caption", film, "--model", run, "--every", "20", "--json").out.count("\n") == len(rows)

    def test_an_interrupted_film_is_resumed(self, hoca: Command, film: Path, run: Path, tmp_path: Path) -> None:
        out, whole = tmp_path / "film.csv", tmp_path / "whole.csv"
        options = ["--model", str(run), "--every", "5", "--format", "csv", "--report"]
        command = [
            sys.executable,
            "-m",
            "hoca",
            "caption",
            str(film),
            *options,
            str(tmp_path / "r.html"),
            "--out",
            str(out),
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        partial = tmp_path / "film.csv.partial"
        deadline = time.monotonic() + 60
        while not partial.exists() or partial.read_text().count("\n") < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        complaint = process.communicate(timeout=60)[1]
        assert process.returncode == 130
        assert f"what is done is in {partial}: the same command resumes it" in complaint
        assert not out.exists()
        with open(partial, "a", encoding="utf-8") as file:
            file.write('{"video": "cut o')  # as a killed process may leave it
        kept = partial.read_text().count("\n") - 1
        result = hoca(*command[3:])
        assert (result.code, result.out) == (0, "")
        assert f"resuming: {kept} sentences are in {partial}" in result.err
        assert not partial.exists()
        assert hoca("caption", film, *options[:-1], "--out", whole).code == 0
        assert out.read_text() == whole.read_text()
        told = (tmp_path / "r.html").read_text()
        assert told.count('"watched"') == whole.read_text().count("\n") - 1

    def test_what_another_command_left_is_not_used(self, hoca: Command, film: Path, run: Path, tmp_path: Path) -> None:
        (tmp_path / "film.txt.partial").write_text('{"format": "hoca-captions-1"}\n{"video": "x"}\n')
        result = hoca("caption", film, "--model", run, "--every", "35", "--out", tmp_path / "film.txt")
        assert result.code == 0
        assert "is of another command, model or file: beginning again" in result.err
        assert (tmp_path / "film.txt").read_text().startswith("0:00–")

    def test_a_plain_call_on_a_long_file_says_how_to_get_more(self, hoca: Command, film: Path, run: Path) -> None:
        result = hoca("caption", film, "--model", run)
        assert (result.code, len(result.out.splitlines())) == (0, 1)
        (line,) = [line for line in result.err.splitlines() if "short clips" in line]
        assert line.startswith(f"{film} plays for 1:10, and one sentence is for short clips: --every 10 gives one ")
        assert "short clips" not in hoca("caption", film, "--model", run, "--start", "10", "--end", "20").err

    def test_absent_sound_and_picture_are_said(
        self, hoca: Command, run: Path, tmp_path: Path, captioner: VideoCaptioner
    ) -> None:
        mute = making.video(tmp_path / "mute.mp4", "libx264", making.moving_square(20), rate=RATE)
        result = hoca("caption", mute, "--model", run)
        assert f"{mute}: nothing was heard (there is no sound in the file)" in result.err
        blind = making.sound(tmp_path / "blind.wav", "pcm_s16le", making.tone(3.0)[None])
        result = hoca("caption", blind, "--model", run)
        assert (result.code, len(result.out.splitlines())) == (0, 1)
        assert f"{blind}: nothing was seen (there is no picture in the file)" in result.err

    def test_standard_input_is_a_video(self, film: Path, run: Path, tmp_path: Path) -> None:
        def piped(*options: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "hoca", "caption", "-", "--model", str(run), *options]
            with open(film, "rb") as content:
                cat = subprocess.Popen(["cat"], stdin=content, stdout=subprocess.PIPE)  # a pipe, which cannot go back
                environment = os.environ | {"TMPDIR": str(tmp_path)}
                return subprocess.run(command, stdin=cat.stdout, capture_output=True, text=True, env=environment)

        result = piped("--every", "35", "--json")
        assert (result.returncode, json.loads(result.stdout.splitlines()[0])["video"]) == (0, "-")
        assert not list(tmp_path.iterdir())
        large = piped("--limit", "bytes=1000")
        assert (large.returncode, large.stdout) == (2, "")
        assert "standard input has more than the limit of 1000 bytes" in large.stderr
        assert not list(tmp_path.iterdir())

    def test_a_url_is_not_fetched(self, hoca: Command, run: Path) -> None:
        result = hoca("caption", "https://example.org/a.mp4", "--model", run)
        assert (result.code, result.out) == (2, "")
        line = "hoca: https://example.org/a.mp4: URLs are not fetched: download the video and give its file"
        assert result.err.splitlines() == [line]

    def test_a_terminal_shows_what_is_loaded_and_how_far_it_is(self, data: Path, run: Path) -> None:
        """The bar is for the terminal; sentences that are piped elsewhere are not shown there instead."""
        clips = [str(data / "videos" / f"test-0000{number}.mp4") for number in (0, 1)]
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "hoca", "caption", *clips, "--model", str(run), "--threads", "1"]
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
        process = subprocess.Popen(
            [*command, "--device", "cpu"], stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
        )
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 10_000):
                shown += piece
        except OSError:  # the terminal is closed when the process ends
            pass
        out = process.communicate(timeout=60)[0]
        os.close(ours)
        assert process.returncode == 0
        assert [line.split(": ")[0] for line in out.splitlines()] == clips
        text = shown.decode()
        assert f"loading the model {run}" in text
        assert "light-image (image)" in text
        assert "2/2" in text
        assert "left" in text

    def test_stored_features_are_captioned_by_their_ids(
        self, hoca: Command, data: Path, run: Path, tmp_path: Path
    ) -> None:
        clip = data / "videos" / "test-00000.mp4"
        stored = hoca("caption", "--features", data / "features", "--model", run, "test-00000", "--json")
        told = json.loads(stored.out)
        assert (stored.code, told["video"]) == (0, "test-00000")
        assert told["text"] == json.loads(hoca("caption", clip, "--model", run, "--json").out)["text"]
        everything = hoca("caption", "--features", data / "features", "--model", run, "--format", "csv")
        assert everything.out.count("\n") == 1 + len(FeatureStore(data / "features"))
        some = hoca("caption", "--features", data / "features", "--model", run, "test-00000", "nosuch")
        assert (some.code, some.out.count("\n")) == (1, 1)
        assert "no features of video nosuch" in some.complaint
        FeatureStore(tmp_path).write("odd", {"image": np.ones((3, 5))}, specification={})
        odd = hoca("caption", "--features", tmp_path, "--model", run)
        assert odd.code == 2
        assert "image features are 5 wide, the model takes" in odd.complaint

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--format", "srt"], "--format srt needs segments: add --every 10 or --scenes"),
            (["--format", "sub"], "--format sub is unknown: "),
            (["--every", "5", "--scenes"], "--every and --scenes are two ways to cut"),
            (["--every", "0.5"], "every: a segment lasts 1 s or more, not 0.5"),
            (["--start", "x"], "--start 'x' is no time"),
            (["--every", "5", "--start", "2:00"], "plays for 1:10: the start 2:00 is after its end"),
            (["--threads", "1", "--device", "tpu"], "device='tpu' is unknown"),
            (["--out", "."], ". is a folder: give the name of a file to write"),
            (["other.mp4", "--every", "5", "--format", "vtt"], "--format vtt is for one video, 2 were given"),
        ],
    )
    def test_mistakes_are_told_in_one_line(
        self, hoca: Command, film: Path, run: Path, options: list[str], message: str
    ) -> None:
        result = hoca("caption", film, "--model", run, *options)
        assert (result.code, result.out) == (2, "")
        assert message in result.complaint
        assert len(result.err.splitlines()) == 1

    def test_a_report_of_a_film_is_made_by_both_commands(
        self, hoca: Command, film: Path, run: Path, tmp_path: Path
    ) -> None:
        report = tmp_path / "report.html"
        result = hoca("explain", film, "--model", run, "--every", "20", "--out", report)
        assert result.code == 0
        page = report.read_text(encoding="utf-8")
        assert page.count("<li>") == len(result.out.splitlines())
        assert hoca("caption", film, "--model", run, "--every", "20", "--report", tmp_path / "again.html").code == 0
        assert (tmp_path / "again.html").read_text(encoding="utf-8").count("<li>") == page.count("<li>")
        assert sorted(os.listdir(tmp_path)) == ["again.html", "report.html"]


def test_a_caption_comes_back_from_its_json(captioner: VideoCaptioner, film: Path) -> None:
    caption = captioner.caption(film, start=0, end=5)
    assert Caption.from_json(caption.to_json()).to_json() == caption.to_json()
    assert replace(caption).duration == pytest.approx(5.0, abs=0.1)
