"""Checkpoints and run folders of format 1, laid out here by hand as that version wrote them, do what they did."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from hoca.checkpoint import SHIPPED, Checkpoint, Checkpoints, load_model, read_checkpoint, write_checkpoint
from hoca.checkpoint.migrate import VERSION
from hoca.errors import UserError
from hoca.training import Recipe, train
from hoca.training.recipe import read_run
from hoca.training.report import evaluate

from ..conftest import Command
from ..training.tiny import WIDTHS, changed, rows, tiny

GROUPS = [["image"], ["motion"], ["audio"]]
PAIRS = [["image", "motion"], ["image", "audio"], ["motion", "audio"]]

CONFIG: dict[str, Any] = {
    "modalities": WIDTHS,
    "groups": [*GROUPS, *PAIRS, ["image", "motion", "audio"]],
    "form": "low-rank",
    "rank": 1,
    "merge": "weights",
    "fusion": "hierarchical",
    "hidden": 8,
    "attention": 8,
    "embedding": 8,
    "dropout": 0.5,
    "encoder_dropout": 0.0,
    "normalise": False,
    "share_projections": False,
    "bottleneck": 0,
    "tie_words": False,
    "max_steps": {"image": 20, "motion": 20, "audio": 20},
    "detects": [],
    "categories": [],
    "category_width": 0,
}
RECIPE: dict[str, Any] = {
    "run": "runs/run",
    "seed": 0,
    "start": None,
    "data": "data/binding",
    "videos": None,
    "features": None,
    "modalities": [],
    "on_problem": "stop",
    "minimum_count": 1,
    "vocabulary": None,
    "max_words": 30,
    "vectors": None,
    "category_vectors": None,
    "model": "l-hoca-ubt",
    "orders": [],
    "groups": [],
    "rank": 1,
    "merge": "weights",
    "fusion": "hierarchical",
    "share_projections": False,
    "hidden": 8,
    "attention": 8,
    "embedding": 8,
    "dropout": 0.5,
    "encoder_dropout": 0.0,
    "normalise": False,
    "modality_dropout": 0.0,
    "step_dropout": 0.0,
    "bottleneck": 0,
    "tie_words": False,
    "max_steps": 20,
    "detects": [],
    "batch": 6,
    "captions": 0,
    "epochs": 2,
    "learning_rate": 0.02,
    "schedule": "constant",
    "warmup": 0,
    "weight_decay": 0.0,
    "objective": "likelihood",
    "samples": 5,
    "drawn": "sampled",
    "likelihood": 0.1,
    "label_smoothing": 0.0,
    "gradient_clip": 0.0,
    "average": 0.0,
    "precision": "float32",
    "step": "auto",
    "device": "cpu",
    "workers": 0,
    "patience": 0,
    "validate_every": 1,
    "checkpoint_every": 2,
    "beam": 2,
    "length_penalty": 0.0,
    "max_length": 10,
    "no_repeat": 0,
    "evidence": 0.0,
}


def write_1(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any], version: int = 1) -> None:
    text = json.dumps(facts, ensure_ascii=False)
    checksum = zlib.crc32(text.encode())
    for key in sorted(tensors):
        value = tensors[key].contiguous()
        checksum = zlib.crc32(f"{key} {value.dtype} {tuple(value.shape)}".encode(), checksum)
        checksum = zlib.crc32(value.flatten().view(torch.uint8).numpy().tobytes(), checksum)
    metadata = {"format": f"hoca-checkpoint-{version}", "facts": text, "checksum": f"{checksum:08x}"}
    save_file({key: value.contiguous() for key, value in tensors.items()}, path, metadata=metadata)


def older(path: Path, recipe: dict[str, Any], config: dict[str, Any] = CONFIG) -> None:
    """Write a checkpoint of today as the version before would have: its tensors were called the same."""
    found = read_checkpoint(path)
    facts = {key: found.facts[key] for key in ("vocabulary", "specification")} | {"config": config, "recipe": recipe}
    if "score" in found.facts:
        facts["score"] = found.facts["score"]
    if "progress" in found.facts:
        progress = dict(found.facts["progress"])
        facts["progress"] = {
            **{key: progress[key] for key in ("epoch", "batch", "step")},
            "loss": progress["losses"].get("loss", 0.0),
            **{key: progress[key] for key in ("captions", "seconds", "best", "stale", "rows")},
        }
        facts["losses"] = [losses.get("loss", 0.0) for losses in found.facts["losses"]]
    write_1(path, found.tensors, facts)


def older_run(run: Path, recipe: dict[str, Any], config: dict[str, Any] = CONFIG) -> None:
    for path in (run / "checkpoint").glob("*.safetensors"):
        older(path, recipe, config)
    lines = [f"{key}: {json.dumps(value)}  # what it means\n" for key, value in recipe.items()]
    (run / "recipe.yaml").write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def begun(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A run of one epoch out of two."""
    recipe = tiny(tiny_data, tmp_path_factory.mktemp("migrate") / "begun", epochs=1, checkpoint_every=2)
    train(recipe)
    return recipe


@pytest.fixture
def old(begun: Recipe, tmp_path: Path) -> Recipe:
    """The same as a run folder of format 1, and the recipe that today's `hoca train` is given for it."""
    recipe = changed(begun, run=str(tmp_path / "old"))
    shutil.copytree(begun.run, recipe.run)
    older_run(Path(recipe.run), RECIPE | {"run": recipe.run, "data": recipe.data.folder, "epochs": 1})
    return recipe


def test_a_run_of_format_1_is_the_same_model(begun: Recipe, old: Recipe) -> None:
    mine, theirs = (load_model(recipe.run) for recipe in (old, begun))
    assert mine.model.name == theirs.model.name == "l-hoca-ubt"
    assert mine.model.config == theirs.model.config
    assert mine.model.vocabulary == theirs.model.vocabulary
    assert (mine.specification, mine.search) == (theirs.specification, theirs.search)
    weights = theirs.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in mine.model.state_dict().items())


def test_it_captions_the_same(begun: Recipe, old: Recipe) -> None:
    for recipe in (begun, old):
        evaluate(Path(recipe.run), "test", metrics=("CIDEr",), device="cpu")
    for name in ("captions-test.json", "scores-test.json"):
        assert (Path(old.run) / name).read_bytes() == (Path(begun.run) / name).read_bytes()


def test_its_recipe_reads_as_todays(begun: Recipe, old: Recipe) -> None:
    found = read_run(Path(old.run))
    assert (found.data, found.train, found.search) == (begun.data, begun.train, begun.search)
    assert found.model.name == "l-hoca-ubt"
    assert found.model.options.items() >= begun.model.options.items()


@pytest.mark.parametrize("within", [False, True], ids=["after an epoch", "within an epoch"])
def test_a_run_of_format_1_resumes(begun: Recipe, old: Recipe, tmp_path: Path, hoca: Command, within: bool) -> None:
    """It ends with the bits of a run that was never stopped, and what it writes is of today's format."""
    whole = changed(begun, run=str(tmp_path / "whole"), epochs=2)
    train(whole)
    run = Path(old.run)
    if within:
        Checkpoints(run).newest()[0].unlink()
    changed(old, epochs=2).write(tmp_path / "recipe.yaml")
    result = hoca("train", tmp_path / "recipe.yaml", "--resume")
    assert result.code == 0, result.err
    assert f"resuming after epoch {0 if within else 1}, step {2 if within else 4}" in result.err
    assert rows(run) == rows(Path(whole.run))
    for path in (Checkpoints(run).best, Checkpoints(run).newest()[0]):
        mine, theirs = read_checkpoint(path), read_checkpoint(Path(whole.run) / "checkpoint" / path.name)
        assert mine.tensors.keys() == theirs.tensors.keys()
        assert all(torch.equal(value, theirs.tensors[name]) for name, value in mine.tensors.items())
    assert metadata(Checkpoints(run).newest()[0])["format"] == f"hoca-checkpoint-{VERSION}"
    assert read_run(run) == changed(old, epochs=2)


def test_what_was_begun_with_another_recipe_is_still_refused(old: Recipe) -> None:
    with pytest.raises(UserError, match=r"was begun with train.learning_rate=0.02, now it is 0.5"):
        train(changed(old, learning_rate=0.5), resume=True)
    with pytest.raises(UserError, match=r"has hidden=8; the recipe, .* now ask for 9"):
        train(changed(old, hidden=9), resume=True)


def test_a_run_of_format_1_that_began_from_a_model_resumes(tiny_data: Path, tmp_path: Path) -> None:
    """Its recipe named the model that was the default, which meant nothing; that of the file it began from had none."""
    keys: dict[str, Any] = {"modalities": ["image", "audio"], "model": "l-hoca-ub", "checkpoint_every": 2, "epochs": 1}
    first = train(tiny(tiny_data, tmp_path / "first", **keys))
    shipped = tmp_path / "shipped.safetensors"
    shutil.copy(Checkpoints(first).best, shipped)
    config = CONFIG | {
        "modalities": {"image": WIDTHS["image"], "audio": WIDTHS["audio"]},
        "groups": [["image"], ["audio"], ["image", "audio"]],
        "max_steps": {"image": 20, "audio": 20},
    }
    older(shipped, {key: RECIPE[key] for key in ("beam", "length_penalty", "max_length", "no_repeat")}, config)
    assert load_model(shipped).model.name == "l-hoca-ub"
    values = tiny(tiny_data, tmp_path / "second", init_from=str(shipped), **keys).to_json() | {"model": {}}
    second = Recipe.of(values)
    train(second)
    said = {"run": second.run, "data": str(tiny_data), "start": str(shipped), "modalities": ["image", "audio"]}
    older_run(Path(second.run), RECIPE | said | {"epochs": 1}, config)
    assert load_model(second.run).model.name == "l-hoca-ub"
    train(changed(second, epochs=2), resume=True)
    whole = changed(second, run=str(tmp_path / "whole"), epochs=2)
    train(whole)
    assert rows(Path(second.run)) == rows(Path(whole.run))


@pytest.mark.parametrize(
    ("groups", "form", "name"),
    [
        (GROUPS, "low-rank", "hoca-u"),
        (PAIRS, "exact", "hoca-b"),
        (PAIRS, "low-rank", "l-hoca-b"),
        ([*GROUPS, *PAIRS], "low-rank", "l-hoca-ub"),
        ([*GROUPS, *PAIRS, ["image", "motion", "audio"]], "exact", "hoca-ubt"),
    ],
)
def test_a_model_without_a_name_gets_that_of_its_groups(
    tmp_path: Path, groups: list[list[str]], form: str, name: str
) -> None:
    facts = {"config": CONFIG | {"groups": groups, "form": form}, "recipe": {"beam": 3, "evidence": 0.5}}
    write_1(tmp_path / "a.safetensors", {"model.a": torch.ones(2)}, facts)
    found = read_checkpoint(tmp_path / "a.safetensors").facts
    assert found["model"] == name
    assert found["search"] == {"beam": 3, "detector_weight": 0.5}
    assert "detects" not in found["config"]
    assert found["config"]["word_detector"] == []


@pytest.mark.parametrize(
    ("objective", "drawn", "now"),
    [("likelihood", "beam", "xe"), ("reward", "sampled", "scst-loo"), ("reward", "beam", "beam-reward")],
)
def test_what_was_trained_for_keeps_its_meaning(tmp_path: Path, objective: str, drawn: str, now: str) -> None:
    recipe = RECIPE | {"objective": objective, "drawn": drawn, "likelihood": 0.3, "step": "captured"}
    write_1(tmp_path / "a.safetensors", {}, {"config": CONFIG, "recipe": recipe})
    train_section = read_checkpoint(tmp_path / "a.safetensors").facts["recipe"]["train"]
    assert train_section["objective"] == now
    assert (train_section["xe_weight"], train_section["cuda_graph"]) == (0.3, "on")


def test_the_shipped_files_are_of_todays_format() -> None:
    for path in SHIPPED.parent.glob("*.safetensors"):
        assert metadata(path)["format"] == f"hoca-checkpoint-{VERSION}"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            f"hoca-checkpoint-{VERSION + 1}",
            f"was written by a newer hoca (format {VERSION + 1}): update hoca to read it",
        ),
        ("hoca-checkpoint-0", "is no checkpoint of hoca"),
        ("hoca-checkpoint-one", "is no checkpoint of hoca"),
    ],
)
def test_a_file_of_another_format_is_refused_in_one_line(
    hoca: Command, tmp_path: Path, name: str, complaint: str
) -> None:
    path = tmp_path / "new.safetensors"
    save_file({"model.a": torch.ones(2)}, path, metadata={"format": name, "facts": "{}", "checksum": ""})
    result = hoca("caption", tmp_path / "clip.mp4", "--model", path)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert f"{path} {complaint}" in result.complaint


@pytest.mark.parametrize(
    "facts",
    [
        {"config": CONFIG},
        {"config": 5, "recipe": RECIPE},
        {"config": {"detects": []}, "recipe": RECIPE},
        {"config": CONFIG | {"groups": 5}, "recipe": {}},
        {"config": CONFIG | {"groups": [5, []]}, "recipe": {}},
        {"config": CONFIG, "recipe": RECIPE | {"objective": [], "drawn": [], "step": [], "model": {}}},
        {"config": CONFIG, "recipe": RECIPE, "progress": {"loss": []}, "losses": 5},
    ],
)
def test_a_file_of_format_1_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path, facts: dict[str, Any]) -> None:
    path = tmp_path / "a.safetensors"
    write_1(path, {}, {"vocabulary": ["a"], "specification": {}} | facts)
    with pytest.raises(UserError, match=r"a\.safetensors") as error:
        load_model(path)
    assert "\n" not in str(error.value)


def test_todays_format_needs_no_change(tmp_path: Path) -> None:
    facts = {"config": {"detects": []}, "recipe": {"batch": 5}}
    write_checkpoint(tmp_path / "a.safetensors", Checkpoint({"a": torch.ones(1)}, facts))
    assert read_checkpoint(tmp_path / "a.safetensors").facts == facts


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def format_2(path: Path, **more: Any) -> None:
    """A checkpoint of today as format 2 wrote it, with the two options that it still had."""
    found, written = read_checkpoint(path), metadata(path)
    facts = found.facts | {"config": found.facts["config"] | {"bottleneck": 0, **more}}
    train_ = facts["recipe"]["train"] | {"step_dropout": 0.0}
    facts["recipe"] = facts["recipe"] | {"train": train_, "model": facts["recipe"]["model"] | {"bottleneck": 0}}
    write_1(path, found.tensors, facts, version=2)
    assert written["format"] != metadata(path)["format"]


def test_a_run_of_format_2_resumes(begun: Recipe, tmp_path: Path) -> None:
    second = changed(begun, run=str(tmp_path / "second"))
    shutil.copytree(begun.run, second.run)
    for path in (Path(second.run) / "checkpoint").glob("*.safetensors"):
        format_2(path)
    recipe = Path(second.run) / "recipe.yaml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("train:\n", "train:\n  step_dropout: 0.0\n"))
    train(changed(second, epochs=2), resume=True)
    whole = changed(begun, run=str(tmp_path / "whole"), epochs=2)
    train(whole)
    assert rows(Path(second.run)) == rows(Path(whole.run))


def test_a_model_that_used_what_is_gone_is_refused_by_name(begun: Recipe, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    shutil.copy(Checkpoints(Path(begun.run)).best, path)
    format_2(path, bottleneck=4)
    with pytest.raises(UserError, match="'bottleneck'"):
        load_model(path)
