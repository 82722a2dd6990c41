"""The benchmarks of captioning and of growth, at tiny size."""

from __future__ import annotations

import csv
from pathlib import Path

from hoca.checkpoint import Checkpoint, model_facts, write_checkpoint
from hoca.features import light_specification
from hoca.generation import Search
from hoca.models import create
from hoca.text import Vocabulary

from ..conftest import Command
from ..features.engines.clips import write_clip


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_cost_is_measured_for_every_size(hoca: Command, tmp_path: Path) -> None:
    out, parts = tmp_path / "scale.csv", "parts=[list, resume, epoch]"
    assert hoca("bench", "scale", "entries=[9]", parts, f"folder={tmp_path}", "--out", out, "--device", "cpu").code == 0
    found = rows(out)
    assert [(row["what"], row["entries"]) for row in found] == [("list", "9"), ("resume", "9"), ("epoch", "9")]
    assert all(float(row["seconds"]) > 0 and int(row["peak_mib"]) > 0 for row in found)
    assert [path.name for path in tmp_path.iterdir()] == ["scale.csv"]  # nothing is left behind


def test_wrong_sizes_are_named(hoca: Command) -> None:
    assert "entries=[0]" in hoca("bench", "scale", "entries=[0]").complaint


def light_model(folder: Path) -> Path:
    specification = light_specification(audio=0)
    words = Vocabulary(["a", "man", "runs"])
    model = create("hoca-u", {"image": 128, "motion": 105}, words, hidden=8, attention=8, embedding=8)
    facts = model_facts(model, specification, Search(beam=2, max_length=4))
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    write_checkpoint(folder / "model.safetensors", Checkpoint(tensors, facts))
    return folder / "model.safetensors"


def test_captioning_is_taken_apart_and_both_ways_say_the_same(hoca: Command, tmp_path: Path) -> None:
    out = tmp_path / "caption.csv"
    chosen = (f"model={light_model(tmp_path)}", "parts=[folder]", "clips=2", "rounds=1", "precisions=[]")
    assert hoca("bench", "caption", *chosen, "--out", out, "--device", "cpu").code == 0
    found = {(row["kind"], row["what"]): row for row in rows(out)}
    assert {"decode", "resize", "search", "perfect overlap"} <= {what for kind, what in found if kind == "stage"}
    one_by_one, together = found["run", "one by one"], found["run", "together"]
    assert together["changed"] == one_by_one["changed"] == "0"
    assert float(together["times"]) > 0 < float(together["of_perfect"])
    assert int(together["peak_mib"]) > 100
    assert float(found["fixed", "now"]["seconds"]) > 0


def test_one_clip_is_timed_from_start_to_end_and_once_more(hoca: Command, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    chosen = (f"model={light_model(tmp_path)}", "parts=[clip]", f"clip={clip}", "runs=1", "precisions=[]")
    assert hoca("bench", "caption", *chosen, "--out", tmp_path / "table.csv", "--device", "cpu").code == 0
    found = {row["what"]: row for row in rows(tmp_path / "table-clip.csv")}
    assert set(found) == {"hoca --help", "import hoca", "hoca caption", "new process", "next clip"}
    seconds = {what: float(row["seconds"]) for what, row in found.items()}
    assert 0 < seconds["import hoca"] < seconds["hoca --help"] < seconds["hoca caption"]
    assert float(found["next clip"]["networks"]) < seconds["next clip"] < seconds["new process"]
    assert int(found["next clip"]["runs"]) == 2


def test_a_part_of_captioning_that_is_not_there_is_named(hoca: Command) -> None:
    assert "did you mean 'clip'" in hoca("bench", "caption", "parts=[clips]").complaint
