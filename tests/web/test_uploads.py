"""An upload is there as long as somebody waits for it, and not longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca.web.uploads import Uploads


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads", keep=0.0)


def put(uploads: Uploads, name: str = "clip.mp4", content: str = "1") -> Path:
    path = uploads.folder / content / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    return path


def test_equal_files_stay_until_the_last_call_on_them(uploads: Uploads) -> None:
    for _ in range(2):
        uploads.arrived(str(put(uploads)))
    path = put(uploads)
    uploads.done(path)
    assert path.is_file()
    uploads.done(path)
    assert list(uploads.folder.iterdir()) == []


def test_one_name_of_a_content_does_not_take_the_other_with_it(uploads: Uploads) -> None:
    one, other = put(uploads, "one.mp4"), put(uploads, "other.mp4")
    uploads.done(one)
    assert not one.exists()
    assert other.is_file()


def test_what_is_old_is_swept_away(uploads: Uploads) -> None:
    upload = put(uploads)
    uploads.arrived(str(upload))
    uploads.sweep()
    assert not upload.exists()


def test_other_folders_are_out_of_reach(uploads: Uploads, tmp_path: Path) -> None:
    other = tmp_path / "mine.mp4"
    other.write_text("mine")
    for path in (other, uploads.folder / ".." / "mine.mp4"):
        uploads.done(path)
    assert other.is_file()
