"""Every file in recipes/ trains, with its sizes made tiny, on data of the same shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca.models import entry
from hoca.training import read_recipe, train
from hoca.training.recipe import DEFAULT_MODEL
from hoca.training.report import evaluate

from .test_recipe import RECIPES
from .tiny import rows, write_dataset

MODALITIES = {  # what the recipe's header says its data has
    "binding": {"image": 128, "motion": 105, "audio": 80},
    "msvd": {"image": 512, "change": 512},
    "compare": {"image": 512, "change": 512},
    "msrvtt": {"image": 1280, "motion": 1024, "audio": 1024},
    "mixed": {"image": 1280, "motion": 1024, "audio": 1024},
    "default": {"image": 768, "change": 768, "audio": 1024},
    "sa": {"image": 512, "change": 512},
    "recnet": {"image": 512, "change": 512},
    "cst": {"image": 512, "change": 512},
    "scn": {"image": 512, "change": 512},
    "mm": {"image": 512, "change": 512},
    "tddf": {"image": 512, "change": 512},
    "cst-paper": {"image": 1536, "motion": 1024, "audio": 128},
    "mm-tgm-paper": {"image": 1536, "motion": 1024, "audio": 128},
    "dense": {"image": 512, "change": 512},
    "dense-cap-paper": {"image": 1280, "motion": 1024, "audio": 1024},
    "hrl": {"image": 512, "change": 512},
    "hrl-paper": {"image": 1280},
    "lstm": {"image": 512, "change": 512},
    "haca": {"image": 512, "change": 512},
    "haca-paper": {"image": 1280, "audio": 1024},
}
TUTORIAL = "finetune"  # a test of its own follows it, videos and all
SMALLER = ["epochs=1", "batch_size=8", "captions_per_video=0", "min_count=1", "device=cpu", "beam=2"]
SMALLER_MODEL = {
    **{"hidden": 8, "attention": 8, "embedding": 8, "factors": 8, "tags": 6, "topics": 3},
    **{
        "high_hidden": 8,
        "global_hidden": 8,
        "local_hidden": 8,
        "worker_hidden": 8,
        "manager_hidden": 8,
        "critic_hidden": 8,
        "decoder_hidden": 8,
    },
}


@pytest.mark.filterwarnings("ignore:orders .* are dropped")
@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem != TUTORIAL], ids=lambda path: path.stem)
def test_recipe_trains_and_is_evaluated(path: Path, tmp_path: Path) -> None:
    check(path, tiny(path, tmp_path), tmp_path / "run")


def tiny(path: Path, folder: Path) -> list[str]:
    """What makes a recipe small and gives it data of the kind that its header names."""
    widths = MODALITIES.get(path.stem) or MODALITIES[path.stem.partition("-")[0]]
    data = write_dataset(folder / "data", widths, {"train": 8, "validation": 2, "test": 2})
    known = entry(read_recipe(path).model.name or DEFAULT_MODEL).model.Config.options()
    sizes = [f"{key}={value}" for key, value in SMALLER_MODEL.items() if key in known]
    return [*SMALLER, *sizes, f"data={data}", f"run={folder / 'run'}", "word_vectors=null"]


def check(path: Path, changes: list[str], run: Path) -> None:
    recipe = read_recipe(path, changes)
    train(recipe)
    assert len(rows(run)) == len(recipe.in_stages())
    scores = evaluate(run, device="cpu", metrics=("BLEU-4", "CIDEr"))
    assert set(scores.per_video) == {"test-00", "test-01"}
