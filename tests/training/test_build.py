"""What is built from a recipe and its dataset, of which the training split alone is known."""

from __future__ import annotations

from pathlib import Path

import torch

import hoca
from hoca.data import FolderDataset, Vocabulary, write_vocabulary
from hoca.distributed import Distributed
from hoca.training import train
from hoca.training.loop import Trainer

from .tiny import tiny, write_captions, write_dataset


def test_the_vocabulary_has_the_words_of_the_training_captions_alone(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", counts={"train": 4, "validation": 2, "test": 2})
    said = {"train": "a red thing", "validation": "a yellow thing", "test": "a purple thing"}
    lines = [
        {"id": video.id, "split": video.split, "captions": [said[video.split]]}
        for video in FolderDataset(data).corpus.videos
    ]
    write_captions(data, lines)
    of = Trainer(tiny(data, tmp_path / "run"), Distributed(0, 1, torch.device("cpu")), resume=False)
    assert sorted(of.vocabulary.words) == ["a", "red", "thing"]


def test_a_given_vocabulary_is_the_models(tiny_data: Path, tmp_path: Path) -> None:
    write_vocabulary(Vocabulary(["a", "bell", "unheard"]), tmp_path / "vocabulary.json")
    run = train(tiny(tiny_data, tmp_path / "run", vocabulary=str(tmp_path / "vocabulary.json"), epochs=1))
    assert hoca.load(run).model.vocabulary.words == ["a", "bell", "unheard"]
