"""What is built from a dataset knows its training split alone."""

from __future__ import annotations

from pathlib import Path

import torch

from hoca.data import FolderDataset
from hoca.training.distributed import Processes
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
    of = Trainer(tiny(data, tmp_path / "run"), Processes(0, 1, torch.device("cpu")), resume=False)
    assert sorted(of.vocabulary.words) == ["a", "red", "thing"]
