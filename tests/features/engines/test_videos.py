from __future__ import annotations

from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.features.engines.summary import Outcome, Summary
from hoca.features.engines.videos import VideoFile, find

from .clips import broken_links


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_files_folders_and_patterns_are_found_once_each(tmp_path: Path) -> None:
    touch(tmp_path / "one.weird", tmp_path / "more" / "b.MP4", tmp_path / "more" / "deep" / "a.webm")
    touch(tmp_path / "more" / "notes.txt", tmp_path / "more" / ".hidden.mp4", tmp_path / "more" / ".cache" / "c.mp4")
    given = [tmp_path / "one.weird", tmp_path / "more", tmp_path / "more" / "b.MP4", f"{tmp_path}/**/*.webm"]
    assert [video.id for video in find(given)] == ["one", "b", "a"]
    assert [video.path for video in find([str(tmp_path / "m*")])] == [
        tmp_path / "more" / "b.MP4",
        tmp_path / "more" / "deep" / "a.webm",
    ]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    touch(tmp_path / "clip [1].mp4", tmp_path / "clip 1.mp4")
    assert [video.id for video in find([tmp_path / "clip [1].mp4"])] == ["clip [1]"]


def test_a_link_to_a_file_already_found_is_no_second_video(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "clip.mp4")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "clip.mp4").symlink_to(tmp_path / "a" / "clip.mp4")
    assert len(find([tmp_path])) == 1


@pytest.mark.parametrize("given", ["", "*.mp4", "gone.mp4 round.mp4 circle.mp4 whole.mp4"])
def test_a_link_to_nothing_is_found_once_and_takes_nothing_with_it(tmp_path: Path, given: str) -> None:
    links = broken_links(tmp_path / "clips")
    touch(tmp_path / "clips" / "whole.mp4")
    found = find([tmp_path / "clips" / name for name in given.split() or [""]] * 2)
    assert {video.path for video in found} == {*links, tmp_path / "clips" / "whole.mp4"}
    assert len(found) == 4


def test_a_link_to_nothing_takes_no_name_from_a_video(tmp_path: Path) -> None:
    broken_links(tmp_path / "a")
    touch(tmp_path / "b" / "gone.mp4")
    assert tmp_path / "b" / "gone.mp4" in [video.path for video in find([tmp_path])]


def test_two_files_of_one_name_are_both_named(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "clip.mp4", tmp_path / "b" / "clip.avi")
    with pytest.raises(UserError, match=r"a/clip\.mp4 and .*b/clip\.avi would both be video clip: rename"):
        find([tmp_path])


@pytest.mark.parametrize(("given", "message"), [("none.mp4", "is not there"), ("*.mp4", "is not there")])
def test_what_is_not_there_is_named(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find([tmp_path / given])


def test_a_folder_without_videos_is_named(tmp_path: Path) -> None:
    touch(tmp_path / "notes.txt")
    with pytest.raises(UserError, match="no videos in"):
        find([tmp_path])


def test_the_summary_counts_and_explains(tmp_path: Path) -> None:
    def video(id: str) -> VideoFile:
        return VideoFile(id, f"{id}.mp4")

    silent = {"audio": "no sound"}
    summary = Summary(
        [
            Outcome(video("a"), "done", duration=1.5),
            Outcome(video("b"), "done", absent=silent, duration=2.0),
            Outcome(video("c"), "skipped", absent=silent),
            Outcome(video("d"), "failed", "d.mp4: it is empty"),
            Outcome(video("e"), "failed", "e.mp4: it is empty"),
        ]
    )
    assert summary.counts() == {"done": 2, "skipped": 1, "without sound": 2, "failed": 2}
    assert summary.table().splitlines() == [
        "2  done",
        "1  skipped",
        "2  without sound  no sound (2)",
        "2  failed         it is empty (2)",
    ]
    summary.write(tmp_path / "report.csv")
    lines = (tmp_path / "report.csv").read_text().splitlines()
    assert lines[0] == "id,video,status,why,absent,duration"
    assert lines[2] == "b,b.mp4,done,,audio: no sound,2.000"
    assert lines[4] == "d,d.mp4,failed,d.mp4: it is empty,,"


def test_a_summary_of_nothing_has_its_rows() -> None:
    assert Summary().table().splitlines() == ["0  done", "0  skipped", "0  failed"]
