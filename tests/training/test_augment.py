"""Dropping modalities of training videos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hoca.data import Batch
from hoca.training import train
from hoca.training.augment import drop_modalities

from .tiny import column, tiny


def videos_of(videos: int = 4000) -> Batch:
    lengths = {"image": torch.full((videos,), 5), "motion": torch.full((videos,), 4), "audio": torch.zeros(videos)}
    lengths["audio"][: videos // 2] = 3
    lengths = {name: value.long() for name, value in lengths.items()}
    return Batch([], {}, lengths, torch.empty(0), 0, 0)


def test_one_always_stays_and_nothing_appears() -> None:
    before = videos_of()
    after = drop_modalities(before, 0.6)
    total = torch.stack(list(after.lengths.values())).sum(0)
    assert bool((total > 0).all())
    for name, length in after.lengths.items():
        assert bool(((length == before.lengths[name]) | (length == 0)).all())


def test_as_often_as_asked() -> None:
    after = drop_modalities(videos_of(20_000), 0.3)
    missing = float((after.lengths["image"][:10_000] == 0).float().mean())
    assert missing == pytest.approx(0.3 - 0.3**3, abs=0.02)  # all three would be missing: all stay


def test_none_by_default() -> None:
    batch = videos_of(4)
    assert drop_modalities(batch, 0.0) is batch


def test_a_model_trained_so_captions_from_any_modality(tiny_data: Path, tmp_path: Path) -> None:
    run = train(tiny(tiny_data, tmp_path / "run", modality_dropout=0.3, epochs=2))
    assert np.isfinite(column(run, "loss")).all()
