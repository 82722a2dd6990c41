from __future__ import annotations

import csv
from pathlib import Path

from hoca.bench import overlap, write_rows
from hoca.bench.extract import KEYS
from hoca.bench.extraction import row_of
from hoca.features import FeatureStore, light_specification
from hoca.features.engines import ExtractionSettings, find
from hoca.features.engines.local import Worker

from ..conftest import Command
from ..features.engines.clips import write_clip


def test_each_backbone_is_measured_apart_from_decoding(hoca: Command, tmp_path: Path) -> None:
    write_clip(tmp_path / "clips" / "silent.mp4", seed=1, sound=False)
    write_clip(tmp_path / "clips" / "loud.mp4", seed=2)
    out = tmp_path / "table.csv"
    options = ("image=light-image", "motion=light-motion", "audio=light-audio", "processes=1", "seconds=0.1")
    result = hoca("bench", "extract", f"videos={tmp_path / 'clips'}", *options, "--device", "cpu", "--out", out)
    assert result.code == 0
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    parts = {(row["modality"], row["part"]) for row in rows}
    assert parts == {(name, part) for name in ("image", "motion", "audio", "all") for part in ("decode", "network")} | {
        ("all", "pipeline"),
        ("all", "command"),
    }
    for row in rows:
        expected = float(row["video_seconds"]) / float(row["seconds"])
        assert abs(float(row["times_real_time"]) / expected - 1) < 0.02
        assert abs(float(row["clips_per_second"]) * float(row["seconds"]) / int(row["clips"]) - 1) < 0.02
        if row["part"] == "network":
            assert float(row["least_cosine"]) > 0.999
    alone = {row["part"]: float(row["clips_per_second"]) for row in rows if row["modality"] == "all"}
    pipeline = next(row for row in rows if row["part"] == "pipeline")
    assert pipeline["bound_by"] == min(("decode", "network"), key=lambda part: alone[part])
    share = alone["pipeline"] / min(alone["decode"], alone["network"])
    assert abs(float(pipeline["share_of_slower"]) / share - 1) < 0.02


def test_a_clip_that_fails_stops_the_measurement(hoca: Command, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    result = hoca("bench", "extract", f"videos={tmp_path}", "image=light-image", "motion=none", "audio=none")
    assert result.code == 2
    assert "text.mp4" in result.complaint


def test_a_part_that_is_not_there_is_named(hoca: Command, tmp_path: Path) -> None:
    result = hoca("bench", "extract", "parts=[decoder]", "--out", tmp_path / "table.csv")
    assert result.code == 2
    assert "did you mean 'decode'" in result.complaint


def test_the_stages_before_the_pipeline_are_measured_apart(tmp_path: Path) -> None:
    """As on a GPU, where the bench asks for them; here sending is nothing."""
    for seed in range(3):
        write_clip(tmp_path / f"{seed}.mp4", seed=seed)
    settings = ExtractionSettings(device="cpu", workers=1, batch=2)
    with Worker(FeatureStore(tmp_path), light_specification(), settings) as worker:
        about = {"sampling": "default", "backbone": "light"}
        for stage, part in ((overlap.sending, "send"), (overlap.batches, "batches")):
            row = stage(worker, find([tmp_path]), about)
            assert (row["part"], row["clips"]) == (part, 3)
            assert float(row["clips_per_second"]) > 0


def test_the_share_is_computed_again_from_the_table(hoca: Command, tmp_path: Path) -> None:
    """Of the networks over the same clips, not over one batch; and of rows of the same commit alone."""
    out = tmp_path / "table.csv"
    about = {"device": "a GPU", "driver": "", "torch": "", "triton": "", "commit": "new", "sampling": "default"}
    about |= {"modality": "all", "backbone": "light"}
    measured = {("decode", 1, 4): 2, ("decode", 16, 64): 8, ("network", "", 16): 5, ("batches", "", 64): 4}
    rows = [
        row_of(about, part, "", processes, 16, clips, 1.0, clips / rate)
        for (part, processes, clips), rate in (measured | {("pipeline", 16, 64): 3}).items()
    ]
    rows.append(row_of(about | {"commit": "old"}, "batches", "", "", 16, 32, 1.0, 1.0))
    write_rows(out, [row | {"share_of_slower": "0.6", "bound_by": "network"} for row in rows], KEYS)
    assert hoca("bench", "extract", "parts=[]", "--out", out, "--device", "cpu").code == 0
    with open(out, newline="", encoding="utf-8") as file:
        (pipeline,) = [row for row in csv.DictReader(file) if row["part"] == "pipeline"]
    assert (pipeline["share_of_slower"], pipeline["bound_by"]) == ("0.750", "batches")
