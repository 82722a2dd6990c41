from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from hoca.features import Extracted, FeatureStore, light_specification
from hoca.features.engines import ExtractionSettings, find
from hoca.features.engines.local import Worker
from hoca.media import DecodedVideo

from ...conftest import Command
from .clips import LIGHT, broken_links, write_clip

MANY = 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four good clips, one of them silent, and two files that are none."""
    folder = tmp_path_factory.mktemp("clips")
    for number in range(3):
        write_clip(folder / f"clip{number}.mp4", seed=number)
    write_clip(folder / "deep" / "silent.mp4", sound=False)
    (folder / "text.mp4").write_text("this is a text")
    (folder / "empty.mp4").touch()
    return folder


def rows(path: Path) -> dict[str, dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def written(store: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in store.glob("*.safetensors")}


def test_a_folder_becomes_a_store_and_each_file_that_fails_is_named(
    hoca: Command, folder: Path, tmp_path: Path
) -> None:
    store, report = tmp_path / "store", tmp_path / "report.csv"
    first = hoca("extract", folder, "--out", store, "--report", report, *LIGHT, "--workers", 2)
    assert first.code == 1
    made = FeatureStore(store)
    assert made.ids() == ["clip0", "clip1", "clip2", "silent"]
    assert made.steps == {"image": 20, "motion": 20, "audio": 16}
    assert list(made.header("silent").absent) == ["audio"]
    assert made.header("clip0").duration == pytest.approx(1.2, abs=0.2)
    complaints = [line for line in first.err.splitlines() if line.startswith("hoca: ")]
    assert len(complaints) == 2
    assert any("text.mp4" in line for line in complaints)
    assert any("empty.mp4" in line for line in complaints)
    for line in ("4  done", "0  skipped", "1  without sound", "2  failed"):
        assert line in first.err
    statuses = {id: row["status"] for id, row in rows(report).items()}
    assert statuses == dict.fromkeys(made.ids(), "done") | {"text": "failed", "empty": "failed"}
    assert "audio: " in rows(report)["silent"]["absent"]

    before = written(store)
    second = hoca("extract", folder, "--out", store, *LIGHT, "--workers", 1)
    assert second.code == 1
    assert "4  skipped" in second.err
    assert "1  without sound" in second.err
    assert written(store) == before
    assert rows(store / "extraction.csv")["clip0"]["status"] == "skipped"


def test_only_what_was_made_otherwise_is_made_again(hoca: Command, folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    clips = tmp_path / "clips"
    for number in range(3):
        write_clip(clips / f"clip{number}.mp4", seed=number)
    command = ("extract", clips, "--out", store, "--workers", 1)
    assert hoca(*command, *LIGHT).code == 0
    before = written(store)
    write_clip(clips / "clip0.mp4", seed=9, frames=20)  # another video under the same name
    (store / "clip1.safetensors").write_bytes(b"cut")
    assert hoca(*command, *LIGHT).code == 0
    changed = {name for name, at in written(store).items() if before[name] != at}
    assert changed == {"clip0.safetensors", "clip1.safetensors"}
    assert "3  done" in hoca(*command, *LIGHT[:4], "--audio", "none").err
    assert list(FeatureStore(store).widths) == ["image", "motion"]


def test_a_batch_gives_the_features_of_single_videos(hoca: Command, folder: Path, tmp_path: Path) -> None:
    for batch in (1, 3):
        hoca(
            "extract", folder / "c*.mp4", "--out", tmp_path / str(batch), *LIGHT, "--batch-size", batch, "--workers", 2
        )
    one, three = FeatureStore(tmp_path / "1"), FeatureStore(tmp_path / "3")
    assert one.ids() == three.ids() == ["clip0", "clip1", "clip2"]
    for id in one:
        for name, values in one[id].items():
            np.testing.assert_array_equal(values, three[id][name])


def test_names_that_are_no_text_are_extracted_and_reported(hoca: Command, folder: Path, tmp_path: Path) -> None:
    strange = os.fsdecode(b"caf\xe9 -\n$(touch x)")
    source = tmp_path / f"{strange}.mp4"
    source.write_bytes((folder / "clip0.mp4").read_bytes())
    broken = tmp_path / os.fsdecode(b"\xff.mp4")
    broken.write_bytes(b"no video")
    result = hoca("extract", source, broken, "--out", tmp_path / "store", *LIGHT, "--workers", 1)
    assert result.code == 1
    assert r"\xff.mp4" in result.err
    assert FeatureStore(tmp_path / "store").ids() == [strange]
    report = (tmp_path / "store" / "extraction.csv").read_text(encoding="utf-8")
    assert r"caf\xe9 -\n$(touch x)" in report


def test_a_name_that_no_file_can_have_costs_that_video_only(hoca: Command, folder: Path, tmp_path: Path) -> None:
    long = tmp_path / f"{'x' * 240}.mp4"
    long.write_bytes((folder / "clip0.mp4").read_bytes())
    result = hoca("extract", folder / "clip1.mp4", long, "--out", tmp_path / "store", *LIGHT, "--workers", 1)
    assert result.code == 1
    assert "too long" in result.err
    assert FeatureStore(tmp_path / "store").ids() == ["clip1"]


def test_a_link_to_nothing_fails_alone(hoca: Command, folder: Path, tmp_path: Path) -> None:
    clips, store = tmp_path / "clips", tmp_path / "store"
    links = broken_links(clips)
    os.link(folder / "clip0.mp4", clips / "whole.mp4")
    os.link(folder / "clip1.mp4", tmp_path / "gone.mp4")  # the name of a broken link, elsewhere
    result = hoca("extract", links[0], clips, tmp_path / "*.mp4", "--out", store, *LIGHT, "--workers", 1)
    assert result.code == 1
    complaints = [line for line in result.err.splitlines() if line.startswith("hoca: ")]
    assert len(complaints) == 3
    for link in links:
        assert any(f"{link} is a link whose target is not there" in line for line in complaints)
    assert "3  failed" in result.err
    assert FeatureStore(store).ids() == ["gone", "whole"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--limit", "minutes=3"), "there is no key 'minutes'"),
        (("--image", "nonsense"), "nonsense"),
        (("--image", "none", "--motion", "none", "--audio", "none"), "none"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_a_wrong_flag_ends_in_one_line(
    hoca: Command, folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = hoca("extract", folder, "--out", tmp_path / "store", *LIGHT, *arguments)
    assert result.code == 2
    assert message in result.complaint


def test_a_store_that_cannot_be_written_ends_in_one_line(hoca: Command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    result = hoca("extract", folder / "clip0.mp4", "--out", tmp_path / "store", *LIGHT, "--workers", 1)
    assert result.code == 2
    assert "store" in result.complaint


def test_a_limit_makes_a_video_fail(hoca: Command, folder: Path, tmp_path: Path) -> None:
    clip = folder / "clip0.mp4"
    result = hoca("extract", clip, "--out", tmp_path / "s", *LIGHT, "--limit", "bytes=100", "--workers", 1)
    assert result.code == 1
    assert "clip0.mp4" in result.err


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_extraction_keeps_what_is_done_and_goes_on(
    hoca: Command, folder: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    clips, store = tmp_path / "clips", tmp_path / "store"
    clips.mkdir()
    for number in range(MANY):
        os.link(folder / f"clip{number % 3}.mp4", clips / f"v{number}.mp4")
    # Names of one file under several ids: each is a video of its own, since the links are hard ones.
    command = [sys.executable, "-m", "hoca", "extract", str(clips), "--out", str(store), *LIGHT, "--workers", "1"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(written(store)) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(stop)
    _, said = running.communicate(timeout=30)
    before = written(store)
    assert 5 <= len(before) < MANY
    if stop == signal.SIGINT:
        assert running.returncode == 130
        assert "Traceback" not in said
        assert said.strip().endswith("hoca: interrupted; the same command resumes it")
        assert len(rows(store / "extraction.csv")) <= len(before)
    assert hoca(*command[3:]).code == 0
    after = written(store)
    assert len(after) == MANY
    assert {name: after[name] for name in before} == before


def test_a_batch_beyond_the_memory_of_the_gpu_is_halved(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FeatureStore(tmp_path)
    settings = ExtractionSettings(device="cpu", workers=1, batch=4)
    with Worker(store, light_specification(), settings) as worker:
        begin = worker.extractor.begin
        sizes: list[int] = []

        def limited(decoded: Sequence[DecodedVideo]) -> Callable[[], list[Extracted]]:
            sizes.append(len(decoded))
            if len(decoded) > 1:
                raise torch.cuda.OutOfMemoryError
            return begin(decoded)

        monkeypatch.setattr(worker.extractor, "begin", limited)
        outcomes = list(worker.outcomes(find([folder / "clip0.mp4", folder / "clip1.mp4", folder / "clip2.mp4"])))
    assert sizes == [3, 1, 2, 1, 1]
    assert [outcome.status for outcome in outcomes] == ["done"] * 3
    assert len(store) == 3


def test_a_clip_without_room_beside_others_is_tried_again_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FeatureStore(tmp_path)
    settings = ExtractionSettings(device="cpu", workers=1, batch=2)
    videos = find([folder / name for name in ("clip0.mp4", "clip1.mp4", "clip2.mp4")])
    with Worker(store, light_specification(), settings) as worker:
        begin = worker.extractor.begin
        tries: list[int] = []

        def limited(decoded: Sequence[DecodedVideo]) -> Callable[[], list[Extracted]]:
            tries.append(len(decoded))
            if len(tries) <= 4:  # both batches, and their halves
                raise torch.cuda.OutOfMemoryError
            if len(tries) == 6:
                raise torch.cuda.OutOfMemoryError  # has no room at all
            return begin(decoded)

        monkeypatch.setattr(worker.extractor, "begin", limited)
        outcomes = list(worker.outcomes(videos))
    assert tries == [2, 1, 1, 1, 1, 1, 1]
    assert [(outcome.video.id, outcome.status) for outcome in outcomes] == [
        ("clip0", "done"),
        ("clip1", "failed"),
        ("clip2", "done"),
    ]
    assert "the GPU's memory does not suffice for this video" in outcomes[1].why
    assert len(store) == 2


def test_two_batches_at_a_time_give_what_one_gives(folder: Path, tmp_path: Path) -> None:
    stores, statuses = [], []
    for batches in (1, 2):  # the second time as on a GPU, with threads that send clips there
        stores.append(FeatureStore(tmp_path / str(batches)))
        stores[-1].folder.mkdir()
        settings = ExtractionSettings(device="cpu", workers=2, batch=1)
        with Worker(stores[-1], light_specification(), settings) as worker:
            worker.batches, worker.sends = batches, batches > 1
            statuses.append({outcome.video.id: outcome.status for outcome in worker.outcomes(find([folder]))})
    assert statuses[0] == statuses[1]
    assert sorted(statuses[0].values()) == ["done"] * 4 + ["failed"] * 2
    for id in stores[0]:
        for name, values in stores[0][id].items():
            np.testing.assert_array_equal(values, stores[1][id][name])
