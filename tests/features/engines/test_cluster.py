from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoca.features import FeatureStore

from ...conftest import Command
from .clips import LIGHT, write_clip

pytest.importorskip("ray", reason="needs Ray: pip install 'hoca[cluster]'")

CLIPS = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A real cluster of this machine: two processors, a small object store."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        "local",
        num_cpus=2,
        object_store_memory=80 * 1024**2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    yield
    ray.shutdown()


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def model_processes() -> list[int]:
    """The cluster's model processes that descend from this test."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                title = (place / "cmdline").read_text()
                if title.startswith("ray::MapWorker") and os.getpid() in ancestors(int(place.name)):
                    found.append(int(place.name))
            except OSError:
                continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc, absent here")
def test_a_killed_process_costs_no_clip_and_none_is_made_twice(cluster: None, hoca: Command, tmp_path: Path) -> None:
    clips, store = tmp_path / "clips", tmp_path / "store"
    for number in range(3):
        write_clip(clips / f"v{number}.mp4", seed=number)
    for number in range(3, CLIPS):
        os.link(clips / f"v{number % 3}.mp4", clips / f"v{number}.mp4")
    strange = os.fsdecode(b"caf\xe9")
    os.link(clips / "v0.mp4", clips / f"{strange}.mp4")
    (clips / "broken.mp4").write_bytes(b"no video")
    killed: dict[str, int] = {}

    def kill_one() -> None:
        while len(at := {path.name: path.stat().st_mtime_ns for path in store.glob("*.safetensors")}) < 5:
            time.sleep(0.01)
        os.kill(model_processes()[0], signal.SIGKILL)
        killed.update(at)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    result = hoca("extract", clips, "--out", store, *LIGHT, "--engine", "ray", "--workers", 2)
    killer.join(1)
    assert result.code == 1
    assert 5 <= len(killed) < CLIPS
    for line in (f"{CLIPS + 1}  done", " 0  skipped", " 1  failed"):
        assert line in result.err
    made = FeatureStore(store)
    assert set(made.ids()) == {strange, *(f"v{number}" for number in range(CLIPS))}
    assert made.steps == {"image": 20, "motion": 20, "audio": 16}
    assert {name: (store / name).stat().st_mtime_ns for name in killed} == killed
    reported = (store / "extraction.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(reported) == CLIPS + 2


def test_a_second_run_on_the_cluster_has_nothing_to_do(cluster: None, hoca: Command, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    command = ("extract", clip, "--out", tmp_path / "store", *LIGHT)
    assert hoca(*command, "--workers", 1).code == 0
    assert "1  skipped" in hoca(*command, "--engine", "ray").err


def test_a_cluster_without_a_gpu_says_so(cluster: None, hoca: Command, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    result = hoca("extract", clip, "--out", tmp_path / "store", *LIGHT, "--engine", "ray", "--device", "cuda")
    assert result.code == 2
    assert "the Ray cluster has no GPU" in result.complaint
