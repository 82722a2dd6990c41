"""A small folder dataset, made of files as a user would have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hoca.features.store import FeatureStore

SPECIFICATION = {"image": {"backbone": "a", "steps": 7}, "audio": {"backbone": "b", "steps": 5}}
SENTENCE = "a man woman dog is slowly cutting playing with two red onions in the kitchen while it rains"


def captions_of(number: int) -> list[str]:
    """1 to 7 distinct captions of 3 to 17 words."""
    words = SENTENCE.split()
    return [" ".join(words[j : j + 2] + words[: 1 + (number * 5 + 7 * j) % 15]) for j in range(1 + number % 7)]


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a dataset of `count` videos: lengths differ, every third video has no sound, two in three a category."""

    def make(count: int = 24) -> Path:
        folder = tmp_path_factory.mktemp("dataset")
        random = np.random.default_rng(0)
        store = FeatureStore(folder / "features")
        rows = []
        for number in range(count):
            id, split = f"v{number:02d}", "validation" if number % 6 == 5 else "train"
            row = {"id": id, "split": split, "captions": captions_of(number)}
            rows.append(row | ({"category": number % 3} if number % 3 else {}))
            features = {"image": random.normal(size=(4 + number % 4, 6))}
            if number % 3:
                features["audio"] = random.normal(size=(2 + number % 4, 3))
            absent = {} if "audio" in features else {"audio": "no sound"}
            store.write(id, features, specification=SPECIFICATION, absent=absent, duration=2.0)
        write_lines(folder / "captions.jsonl", rows)
        return folder

    return make


@pytest.fixture(scope="session")
def folder(make_folder: Callable[..., Path]) -> Path:
    """A dataset that tests read and never change."""
    return make_folder()
