"""A small model of real clips, trained in seconds: sentences that differ, attention of all orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hoca.captioning import VideoCaptioner
from hoca.checkpoint import Checkpoint, Checkpoints, load_model, read_checkpoint, write_checkpoint
from hoca.data import binding
from hoca.generation import Confidence, Search
from hoca.models import create
from hoca.training import train

from ..models.test_interface import Bag
from ..training.tiny import tiny

OPTIONS = binding.BindingOptions(
    train=10, validation=2, test=4, captions=2, seconds=1.0, fps=8, picture=32, silent=0.5, distractors=0
)


def prepare(folder: Path) -> Path:
    """A dataset whose test clips test-00000 … test-00003 are files; half of them are silent."""
    return binding.prepare(folder, OPTIONS, videos=True)


def fit(data: Path, run: Path, **changes: object) -> Path:
    settings = {"epochs": 12, "hidden": 16, "learning_rate": 0.03, "dropout": 0.1, "beam": 4, "max_length": 15}
    if "model" not in changes:
        settings["merge"] = "mixture"
    return train(tiny(data, run, **{**settings, **changes}))


def make_unsure(run: Path) -> Path:
    """The same run, whose model now says of every sentence that it is 11.9 % sure."""
    best = Checkpoints(run).best
    found = read_checkpoint(best)
    write_checkpoint(best, Checkpoint(found.tensors, found.facts | {"confidence": Confidence(bias=-2.0).to_json()}))
    return run


def silent_captioner(run: Path) -> VideoCaptioner:
    """One for the clips of a run that says words at random, and not what they looked at."""
    loaded = load_model(run)
    vocabulary = loaded.model.vocabulary
    model = Bag(Bag.Config.of(loaded.model.config.modalities, hidden=8), vocabulary).eval()
    model.name = "bag"
    model.output.bias.data[vocabulary.eos] = -10.0  # words up to the limit
    return VideoCaptioner(model, loaded.specification, Search(beam=2, max_length=5))


def untrained(run: Path, name: str, **options: Any) -> VideoCaptioner:
    """A captioner of this name for the clips of a run, which has seen captions and learned nothing from them."""
    loaded = load_model(run)
    config, vocabulary = loaded.model.config, loaded.model.vocabulary
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden": 8, "embedding": 6, "max_steps": dict(config.max_steps)} | options
    model = create(name, config.modalities, vocabulary, **sizes).eval()
    model.prepare([[" ".join(vocabulary.tokens[vocabulary.unk + 1 :])]])
    return VideoCaptioner(model, loaded.specification, Search(beam=2, max_length=6))


def clips(data: Path, *, silent: bool) -> list[Path]:
    from hoca.data import FolderDataset

    dataset = FolderDataset(data)
    chosen = [v.id for v in dataset.videos("test") if ("audio" not in dataset.lengths(v.id)) == silent]
    return [data / "videos" / f"{id}.mp4" for id in chosen]
