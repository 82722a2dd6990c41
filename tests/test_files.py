"""What a command is told to write to: files are replaced, links followed, devices and pipes written to."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.files import in_units, printable, replacing

from .conftest import Device


def write(path: Path, content: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(content)


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    target, link, second = tmp_path / "target", tmp_path / "link", tmp_path / "links" / "second"
    target.write_text("old")
    second.parent.mkdir()
    link.symlink_to(target)
    second.symlink_to("../link")
    for path, content in ((link, "new"), (second, "newer")):
        write(path, content)
        assert target.read_text() == content
        assert path.is_symlink()
    assert not target.is_symlink()
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["link", "links", "second", "target"]


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("folder/target")
    write(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "folder" / "target").read_text() == "new"


def test_links_in_a_circle_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "a", "new")
    assert (tmp_path / "a").is_symlink()


def test_an_error_leaves_the_target_of_a_link_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(UnicodeEncodeError):
        write(tmp_path / "link", "half \udcff")
    assert (tmp_path / "target").read_text() == "old"


@pytest.mark.parametrize("linked", [False, True])
def test_a_device_is_written_to_and_stays_one(tmp_path: Path, device: Device, linked: bool) -> None:
    null, full = device(3), device(7)
    for path in (null, full):
        (tmp_path / f"{path.name}-link").symlink_to(path)
    null_name, full_name = (path.with_name(f"{path.name}-link") if linked else path for path in (null, full))
    write(null_name, "new")
    with pytest.raises(UserError, match="no space left on the disk"):
        write(full_name, "new")
    assert null.is_char_device()
    assert full.is_char_device()


def test_a_named_pipe_gets_the_bytes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Open for both, so that nobody waits for the other side, even where the pipe is replaced.
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    writer = threading.Thread(target=write, args=(pipe, "new"))
    writer.start()
    writer.join(30)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert os.read(end, 100) == b"new"
    os.close(end)


@pytest.mark.parametrize("to_file", [False, True])
def test_standard_output_gets_the_bytes_in_turn(tmp_path: Path, to_file: bool) -> None:
    stdout, log = tmp_path / "stdout", tmp_path / "log"
    stdout.symlink_to("/proc/self/fd/1")  # as /dev/stdout is
    log.write_text("earlier\n")
    code = (
        "from pathlib import Path; from hoca.files import replacing\n"
        "print('before')\n"
        f"with replacing(Path({str(stdout)!r})) as temporary: temporary.write_text('content\\n')\n"
        "print('after')"
    )
    with open(log, "a") as file:
        done = subprocess.run([sys.executable, "-c", code], stdout=file if to_file else subprocess.PIPE, check=True)
    assert (log.read_bytes() if to_file else b"earlier\n" + done.stdout) == b"earlier\nbefore\ncontent\nafter\n"
    assert stdout.is_symlink()


def test_a_folder_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (tmp_path, tmp_path / "link"):
        with pytest.raises(UserError, match=f"{path} is a folder: give the name of a file"):
            write(path, "new")


def test_names_are_printed_in_one_line_whatever_bytes_they_hold() -> None:
    """A byte that is no text is written as a shell takes it."""
    assert printable(os.fsdecode(b"caf\xe9\nline\t\xc3\xa9.mp4")) == r"caf\xe9\nline\té.mp4"
    assert printable(Path("a/\u2028b")) == r"a/\u2028b"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999_999, "999999 bytes"),
        (100 * 10**6, "100 MB"),
        (104_857_600, "104.9 MB"),
        (2**31, "2.147 GB"),
    ],
)
def test_a_size_is_said_in_units_of_people(size: int, said: str) -> None:
    assert in_units(size) == said
