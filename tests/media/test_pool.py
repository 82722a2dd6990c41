from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.errors import UserError

from . import making

PICTURES = {"a": media.Pictures(media.Spread(5), (20, 30))}


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return making.video(tmp_path / "clip.mp4", "libx264", making.moving_square(10), sound="aac")


def hostile(clip: Path, transform: object) -> media.Request:
    return media.Request(clip, {"a": media.Pictures(range, transform=transform)})  # type: ignore[arg-type]


def children() -> set[int]:
    """Distributed of ours, the dead ones that nobody waited for too."""
    return {int(task) for file in Path("/proc/self/task").glob("*/children") for task in file.read_text().split()}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def shared_memory() -> int:
    """Arrays of ours that live in a worker's memory. It has no name; what has one would be in /dev/shm."""
    return Path("/proc/self/maps").read_text().count("memfd:hoca")


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No process, no descriptor, no shared memory remains."""
    before = children(), descriptors()
    yield
    assert children() <= before[0]
    assert descriptors() <= before[1]
    assert shared_memory() == 0


@pytest.mark.usefixtures("nothing_left")
def test_a_worker_decodes_what_this_process_would(clip: Path) -> None:
    request = media.Request(clip, PICTURES | {"half": media.Pictures(range, transform=making.halve)}, 22050)
    here = media.decode(request)
    with media.Decoders(1) as decoders:
        there = decoders.decode(request)
    assert shared_memory() == 1
    for name in request.pictures:
        np.testing.assert_array_equal(there.pictures[name], here.pictures[name])
        np.testing.assert_array_equal(there.times[name], here.times[name])
    np.testing.assert_array_equal(there.waveform, here.waveform)  # type: ignore[arg-type]
    assert (there.frames, there.duration, there.rate, there.absent) == (here.frames, here.duration, 22050, {})
    there.pictures["a"][0] = 0  # it is ours to change
    del there


def test_workers_do_not_import_torch(clip: Path) -> None:
    assert "torch" in sys.modules
    with media.Decoders(1) as decoders:
        assert not decoders.decode(hostile(clip, making.torch_is_loaded)).pictures["a"].any()


@pytest.mark.usefixtures("nothing_left")
def test_a_worker_that_dies_costs_one_clip(clip: Path) -> None:
    limits = media.DecodeLimits(decode_seconds=2, memory=512 * 2**20)
    good, others = media.Request(clip, PICTURES, 16000), children()
    with media.Decoders(1, limits) as decoders:
        for transform, message in (
            (making.crash, "crash (SIGSEGV)"),
            (making.hang, "longer to decode than the limit of 2 s"),
            (making.devour, "more memory than the limit"),
        ):
            assert decoders.decode(good).frames == 10
            with pytest.raises(UserError) as raised:
                decoders.decode(hostile(clip, transform))
            assert message in str(raised.value)
            assert "clip.mp4" in str(raised.value)
            assert len(children() - others) <= 1
        assert decoders.decode(good).frames == 10


def test_too_little_memory_is_no_damage_of_the_file(tmp_path: Path) -> None:
    """Decoders take what they get; half a clip must not pass for a whole one."""
    frames = np.zeros((8, 2160, 3840, 3), np.uint8)
    path = making.video(tmp_path / "large.mkv", "libx264", frames, options={"preset": "ultrafast", "refs": "8"})
    short = media.DecodeLimits(memory=20 * 2**20)
    with media.Decoders(1, short) as decoders, pytest.raises(UserError, match=r"large\.mkv needs more memory than"):
        decoders.decode(media.Request(path, PICTURES))
    with media.Decoders(1) as decoders:
        assert decoders.decode(media.Request(path, PICTURES)).damage == ""


def test_a_worker_that_was_killed_while_idle_costs_nothing(clip: Path) -> None:
    with media.Decoders(1) as decoders:
        before = children()
        decoders.decode(media.Request(clip, PICTURES))
        for worker in children() - before:
            os.kill(worker, signal.SIGKILL)
        assert decoders.decode(media.Request(clip, PICTURES)).frames == 10


@pytest.mark.usefixtures("nothing_left")
def test_map_gives_each_request_once(clip: Path) -> None:
    requests = [media.Request(clip, PICTURES, 16000) for _ in range(6)]
    requests[2] = media.Request(clip.with_name("absent.mp4"), PICTURES)
    requests[4] = hostile(clip, making.crash)
    with media.Decoders(2) as decoders:
        answers = list(decoders.map(requests))
    assert len(answers) == 6
    failures = {id(request): answer.reason for request, answer in answers if isinstance(answer, media.Failure)}
    assert set(failures) == {id(requests[2]), id(requests[4])}
    assert "not there" in failures[id(requests[2])]
    assert all("\n" not in reason for reason in failures.values())
    del answers


@pytest.mark.usefixtures("nothing_left")
def test_map_decodes_a_few_files_ahead_and_no_more(clip: Path) -> None:
    taken = 0

    def requests() -> Iterator[media.Request]:
        nonlocal taken
        while True:
            taken += 1
            yield media.Request(clip, PICTURES)

    with media.Decoders(2) as decoders:
        for number, _ in enumerate(decoders.map(requests()), start=1):
            assert taken <= number + 3
            if number == 8:
                break


@pytest.mark.usefixtures("nothing_left")
def test_closing_ends_workers_in_the_middle_of_a_file(clip: Path) -> None:
    decoders = media.Decoders(1)
    caught: list[Exception] = []

    def wait() -> None:
        try:
            decoders.decode(hostile(clip, making.hang))
        except UserError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(1)
    start = time.monotonic()
    decoders.close()
    thread.join(10)
    assert time.monotonic() - start < 5
    assert len(caught) == 1
    with pytest.raises(UserError, match="closed"):
        decoders.decode(media.Request(clip, PICTURES))


def test_workers_end_when_their_parent_is_killed(clip: Path) -> None:
    """Also a worker that is in the middle of a file; shared memory has no name that could stay behind."""
    code = f"""
        from pathlib import Path
        from hoca import media
        from tests.media import making
        decoders = media.Decoders(2)
        decoders.decode(media.Request(Path({str(clip)!r}), {{"a": media.Pictures(range)}}))
        print([worker.process.pid for worker in decoders._running], flush=True)
        decoders.decode(media.Request(Path({str(clip)!r}), {{"a": media.Pictures(range, transform=making.hang)}}))
    """
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=root, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        (worker,) = map(int, parent.stdout.readline().strip("[]\n").split(","))
        time.sleep(0.5)
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and _state(worker) != "Z" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists() or _state(worker) == "Z"
    assert not [name for name in os.listdir("/dev/shm") if "hoca" in name]


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_a_worker_that_cannot_start_says_how_to_find_out(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children(), descriptors()
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with media.Decoders(1) as decoders:
        for _ in range(2):
            with pytest.raises(UserError, match=r"no decoding process can be started.*worker") as told:
                decoders.decode(media.Request(clip, PICTURES))
            assert "/" not in str(told.value)  # visitors of a page read this
    assert (children(), descriptors()) == before


def test_what_a_worker_cannot_import_is_named(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fleeting.py").write_text("def pick(n):\n    return [0]\n")
    monkeypatch.syspath_prepend(tmp_path)
    import fleeting  # type: ignore[import-not-found]

    (tmp_path / "fleeting.py").unlink()
    with media.Decoders(1) as decoders, pytest.raises(UserError, match="cannot import"):
        decoders.decode(media.Request(clip, {"a": media.Pictures(fleeting.pick)}))


def test_a_worker_that_is_killed_over_its_first_file_costs_nothing(clip: Path, tmp_path: Path) -> None:
    with media.Decoders(1) as decoders:
        assert decoders.decode(hostile(clip, making.CrashOnce(tmp_path / "mark"))).frames


def test_a_file_that_is_tried_again_gets_no_second_time_limit(clip: Path) -> None:
    with media.Decoders(workers=1, limits=media.DecodeLimits(decode_seconds=8)) as decoders:
        decoders.decode(media.Request(clip, PICTURES))  # a worker that may be at fault is tried again with another
        with pytest.raises(UserError, match="takes longer to decode"):
            decoders.decode(hostile(clip, making.crash_late))
