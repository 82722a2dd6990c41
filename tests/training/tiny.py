"""A dataset that is learned in seconds, recipes for it, and the command line as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hoca.features import FeatureStore
from hoca.models import entry
from hoca.training import Recipe
from hoca.training.recipe import DEFAULT_MODEL, merged, nested

WIDTHS = {"image": 6, "motion": 5, "audio": 4}
COUNTS = {"train": 24, "validation": 6, "test": 6}
COLOURS, SOUNDS = ("red", "green", "blue", "white"), ("bell", "drum", "horn")
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def write_dataset(folder: Path, widths: Mapping[str, int] = WIDTHS, counts: Mapping[str, int] = COUNTS) -> Path:
    """The first modality shows a colour, the last one a sound; every fourth video lacks the last one."""
    random = np.random.default_rng(0)
    store, lines = FeatureStore(folder / "features"), []
    for split, count in counts.items():
        for number in range(count):
            id = f"{split}-{number:02d}"
            colour, sound = number % len(COLOURS), number % len(SOUNDS)
            features = {name: 0.1 * random.normal(size=(3 + number % 3, width)) for name, width in widths.items()}
            first, *_, last = [*features, *features]
            features[first][:, colour] += 2
            features[last][:, sound] += 2
            if number % 4 == 3 and len(widths) > 1:
                del features[last]
            store.write(id, features, specification={name: {"backbone": "test", "steps": 5} for name in widths})
            captions = [f"a {COLOURS[colour]} thing and a {SOUNDS[sound]}", f"the {SOUNDS[sound]} of what is red"]
            captions += ["something"] * (number == 0)  # an odd number of captions in all
            lines.append({"id": id, "split": split, "captions": captions, "category": COLOURS[colour]})
    write_captions(folder, lines)
    return folder


def write_captions(folder: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "captions.jsonl").write_text(text, encoding="utf-8")


def tiny(data: Path, run: Path, **changes: Any) -> Recipe:
    """Keys as on the command line, without their sections."""
    values: dict[str, Any] = {
        **{"data": str(data), "run": str(run), "hidden": 8, "attention": 8, "embedding": 8, "max_steps": 20},
        **{"batch_size": 6, "captions_per_video": 0, "epochs": 2, "learning_rate": 0.02, "device": "cpu"},
        **{"beam": 2, "max_length": 10},
    }
    if "attention" not in entry(changes.get("model", DEFAULT_MODEL)).model.Config.options():
        del values["attention"]
    return Recipe.of(nested(values | changes, Recipe()))


def changed(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with other values, keys as on the command line."""
    return Recipe.of(merged(recipe.to_json(), nested(changes, recipe)))


def tiny_file(folder: Path, data: Path, run: Path, **changes: Any) -> Path:
    """The same as a recipe file."""
    path = folder / f"{run.name}.yaml"
    tiny(data, run, **changes).write(path)
    return path


def rows(run: Path) -> list[dict[str, str]]:
    """`metrics.csv` without the column that no two runs share."""
    with open(run / "metrics.csv", newline="") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def column(run: Path, name: str) -> list[float]:
    return [float(row[name]) for row in rows(run)]


def start(*arguments: str | Path, module: str = "hoca", **options: Any) -> subprocess.Popen[str]:
    """`hoca …` in a process (and a process group) of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", *module.split(), *map(str, arguments)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err
