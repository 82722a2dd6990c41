"""An upload is there as long as somebody waits for it, and not longer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hoca.web.uploads import Uploads


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads", keep=0.0, quota=1000)


def put(uploads: Uploads, name: str = "clip.mp4", content: str = "1") -> Path:
    """A file that is uploaded."""
    path = uploads.folder / content / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    uploads.arrived(str(path))
    return path


def test_equal_files_stay_until_the_last_call_on_them(uploads: Uploads) -> None:
    for _ in range(2):
        path = put(uploads)
    assert uploads.take(path)
    assert uploads.take(path)
    uploads.done(path)
    assert path.is_file()
    uploads.done(path)
    assert list(uploads.folder.iterdir()) == []


def test_equal_files_stay_while_one_waits_for_its_call(uploads: Uploads) -> None:
    for _ in range(2):
        path = put(uploads)
    assert uploads.take(path)
    uploads.done(path)
    assert uploads.holds(path)


def test_an_upload_pays_for_one_call(uploads: Uploads) -> None:
    path = put(uploads)
    assert uploads.take(path)
    assert not uploads.take(path)
    assert path.is_file()


def test_one_name_of_a_content_does_not_take_the_other_with_it(uploads: Uploads) -> None:
    one, other = put(uploads, "one.mp4"), put(uploads, "other.mp4")
    uploads.discard(one)
    assert not one.exists()
    assert other.is_file()


def test_what_is_old_is_swept_away(uploads: Uploads) -> None:
    upload = put(uploads)
    uploads.sweep()
    assert not upload.exists()
    assert not uploads.holds(upload)


def test_sweeping_takes_a_link_and_leaves_what_it_points_to(uploads: Uploads, tmp_path: Path) -> None:
    mine = tmp_path / "mine.mp4"
    mine.write_text("mine")
    link = put(uploads)
    link.unlink()
    link.symlink_to(mine)
    uploads.sweep()
    assert not link.is_symlink()
    assert mine.is_file()


def test_only_a_regular_file_at_the_place_of_an_upload_is_one(uploads: Uploads, tmp_path: Path) -> None:
    mine = tmp_path / "mine.mp4"
    mine.write_text("mine")
    deep = uploads.folder / "1" / "folder" / "deep.mp4"
    deep.parent.mkdir(parents=True)
    deep.write_text("deep")
    (uploads.folder / "shallow.mp4").write_text("shallow")
    (uploads.folder / "1" / "link.mp4").symlink_to(mine)
    (uploads.folder / "2").symlink_to(uploads.folder / "1" / "folder")
    before = sorted(tmp_path.rglob("*"))
    names = [".", "..", "../mine.mp4", "1", "1/folder", "1/folder/deep.mp4", "shallow.mp4", "1/link.mp4", "2/deep.mp4"]
    for name in (*names, "1/none.mp4", "1/\0.mp4", str(mine)):
        uploads.arrived(str(uploads.folder / name))
        uploads.discard(uploads.folder / name)
        assert not uploads.take(uploads.folder / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_still_to_arrive_counts_as_room_taken(uploads: Uploads) -> None:
    assert uploads.reserve(600)
    assert not uploads.reserve(600)
    uploads.finished(600)
    assert uploads.reserve(600)


def test_what_has_arrived_counts_until_it_is_removed(uploads: Uploads) -> None:
    path = put(uploads, content="x" * 200)
    path.write_text("x" * 600)
    assert not uploads.reserve(600)
    uploads.discard(path)
    assert uploads.reserve(600)


def test_parts_go_when_no_upload_is_under_way_or_when_they_are_old(uploads: Uploads) -> None:
    part = uploads.folder / "tmpabc"
    assert uploads.reserve(1)
    assert uploads.reserve(1)
    part.write_text("part")
    uploads.finished(1)
    assert part.is_file()
    uploads.finished(1)
    assert not part.exists()
    part.write_text("part")
    os.utime(part, (0, 0))
    uploads.sweep()
    assert not part.exists()
