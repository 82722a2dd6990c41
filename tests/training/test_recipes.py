"""Every file in recipes/ trains, with its sizes made tiny, on data of the same shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca.training import read_recipe, train
from hoca.training.report import evaluate

from .test_recipe import RECIPES
from .tiny import rows, write_dataset

MODALITIES = {  # what the recipe's header says its data has
    "binding": {"image": 128, "motion": 105, "audio": 80},
    "msvd": {"image": 512, "change": 512},
    "msrvtt": {"image": 1280, "motion": 1024, "audio": 1024},
}
SMALLER = ["epochs=1", "hidden=8", "attention=8", "embedding=8", "batch=8", "captions=0", "device=cpu", "beam=2"]


@pytest.mark.filterwarnings("ignore:orders .* are dropped")
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_trains_and_is_evaluated(path: Path, tmp_path: Path) -> None:
    widths = MODALITIES[path.stem.partition("-")[0]]
    data = write_dataset(tmp_path / "data", widths, {"train": 8, "validation": 2, "test": 2})
    recipe = read_recipe(path, [*SMALLER, f"data={data}", f"run={tmp_path / 'run'}"])
    train(recipe)
    assert len(rows(tmp_path / "run")) == 1
    scores = evaluate(tmp_path / "run", device="cpu", metrics=("BLEU-4", "CIDEr"))
    assert set(scores.per_video) == {"test-00", "test-01"}
