"""A small model of real clips, trained in seconds: sentences that differ, attention of all orders."""

from __future__ import annotations

from pathlib import Path

from hoca.data import binding
from hoca.training import train

from ..training.tiny import tiny

OPTIONS = binding.Options(
    train=10, validation=2, test=4, captions=2, seconds=1.0, fps=8, picture=32, silent=0.5, distractors=0
)


def prepare(folder: Path) -> Path:
    """A dataset whose test clips test-00000 … test-00003 are files; half of them are silent."""
    return binding.prepare(folder, OPTIONS, videos=True)


def fit(data: Path, run: Path, **changes: object) -> Path:
    settings = {"epochs": 12, "hidden": 16, "learning_rate": 0.03, "dropout": 0.1, "beam": 4, "max_length": 15}
    return train(tiny(data, run, **{**settings, "merge": "mixture", **changes}))


def clips(data: Path, *, silent: bool) -> list[Path]:
    from hoca.data import FolderDataset

    dataset = FolderDataset(data)
    chosen = [v.id for v in dataset.videos("test") if ("audio" not in dataset.lengths(v.id)) == silent]
    return [data / "videos" / f"{id}.mp4" for id in chosen]
