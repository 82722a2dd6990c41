"""Bad days for benchmarks/kills.py: each returns what went wrong, "" if nothing did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import forked

from tests.training.tiny import tiny_file, write_dataset

SETTINGS = {"batch_size": 4, "captions_per_video": 1, "epochs": 3, "checkpoint_every": 2}
NOBODY = 65534
FAKETIME = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1")]


def recipe(place: Path, run: Path) -> Path:
    data = place / "data"
    return tiny_file(place, data if data.is_dir() else write_dataset(data), run, **SETTINGS)


def ran(place: Path, *command: object, first: Callable[[], object] = lambda: None) -> tuple[int, list[str]]:
    """Exit code of a command, and the lines that it said."""
    status = os.waitpid(forked.start(command, place, place / "log", first=first), 0)[1]
    return os.waitstatus_to_exitcode(status), (place / "log.err").read_text().strip().splitlines()


def difference(run: Path, reference: Path) -> str:
    from tests.training.test_resume import assert_same_run

    try:
        assert_same_run(run, reference)
    except AssertionError as error:
        return f"other bits than on a good day: {str(error)[:200]}"
    return ""


def reference(place: Path) -> Path:
    status, said = ran(place, "train", recipe(place, place / "reference"))
    if status:
        raise RuntimeError(f"on a good day: {said[-1]}")
    return place / "reference"


def interrupted(place: Path, checkpoints: int = 2) -> Path:
    """A run that was killed when it had so many checkpoints."""
    run = place / "run"
    process = forked.start(("train", recipe(place, run)), place, place / "log")
    while len(list(run.glob("checkpoint/step-*.safetensors"))) < checkpoints:
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return run


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True, capture_output=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def full_disk_training(place: Path) -> str:
    whole = reference(place)
    with small_disk(place, "100k") as disk:
        file = recipe(place, disk / "run")
        status, said = ran(place, "train", file)
        if status != 2 or not said[-1].startswith("hoca: ") or "space" not in said[-1]:
            return f"status {status}: {said[-1:]}"
        if left := [path.name for path in disk.rglob("*.tmp")]:
            return f"left behind: {left}"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        status, said = ran(place, "train", file, "--resume")
        return f"status {status}: {said[-1:]}" if status else difference(disk / "run", whole)


def full_disk_extraction(place: Path) -> str:
    from tests.features.engines.clips import LIGHT, write_clip

    for number in range(6):
        write_clip(place / "clips" / f"v{number}.mp4", seed=number)
    command = ("extract", place / "clips", *LIGHT, "--workers", 1, "--out")
    ran(place, *command, place / "whole")
    with small_disk(place, "48k") as disk:
        status, said = ran(place, *command, disk / "store")
        if status != 2 or "space" not in said[-1]:
            return f"status {status}: {said[-2:]}"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        status, said = ran(place, *command, disk / "store")
        made, wanted = (
            {path.name: path.read_bytes() for path in store.glob("*.safetensors")}
            for store in (disk / "store", place / "whole")
        )
        return "" if not status and made == wanted and len(made) == 6 else f"status {status}, {len(made)} of 6 files"


def read_only_folder(place: Path) -> str:
    for folder in (place.parent, place):
        folder.chmod(0o755)
    (place / "locked").mkdir(mode=0o555)
    file = recipe(place, place / "locked" / "run")

    def ordinary() -> None:
        from hoca.training import read_recipe, train

        train(read_recipe(recipe(place, place / "reference")))  # imports all, where others may not read Python itself
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    status, said = ran(place, "train", file, first=ordinary)
    fine = status == 2 and len(said) == 1 and "Permission denied" in said[0]
    return "" if fine and not list((place / "locked").iterdir()) else f"status {status}: {said[-2:]}"


def clock_set_back(place: Path) -> str:
    if not FAKETIME:
        return "libfaketime is not installed"
    whole, run = reference(place), interrupted(place)
    environment = os.environ | {
        "LD_PRELOAD": str(FAKETIME[0]),
        "FAKETIME": "-400d",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    command = [sys.executable, "-m", "hoca", "train", str(recipe(place, run)), "--resume"]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    return f"status {done.returncode}: {done.stderr[-200:]}" if done.returncode else difference(run, whole)


def spoilt_checkpoint(place: Path) -> str:
    from hoca.checkpoint import Checkpoints

    whole, run = reference(place), interrupted(place)
    newest = Checkpoints(run).newest()[0]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 255
    newest.write_bytes(content)
    status, said = ran(place, "train", recipe(place, run), "--resume")
    if status or not any(newest.name in line and "resuming from the one before it" in line for line in said):
        return f"status {status}: {said[:2]}"
    return difference(run, whole)


DAYS: dict[str, Callable[[Path], str]] = {
    "a full disk, training": full_disk_training,
    "a full disk, extraction": full_disk_extraction,
    "a folder that may not be written": read_only_folder,
    "a clock set back": clock_set_back,
    "a spoilt checkpoint": spoilt_checkpoint,
}
