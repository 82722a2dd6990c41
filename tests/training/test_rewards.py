"""Every captioner learns from every word objective, and a resumed run earns what one that was never stopped earns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hoca.data import FolderDataset
from hoca.distributed import Distributed
from hoca.models import entry, names
from hoca.text import Vocabulary
from hoca.training import train
from hoca.training.loop import Trainer
from hoca.training.objectives import OBJECTIVES, RewardObjective, reward_of

from .test_resume import assert_same_run
from .tiny import changed, column, tiny

SIZES = ["high_hidden", "global_hidden", "local_hidden", "decoder_hidden", "worker_hidden", "manager_hidden"]
OF_GOALS = {"hrl-worker", "hrl-manager"}  # which need a captioner with goals: test_goals.py
REWARDED = [name for name in OBJECTIVES if name not in OF_GOALS and issubclass(OBJECTIVES[name], RewardObjective)]
every_baseline = pytest.mark.parametrize("model", [name for name in names() if "hoca" not in name])
ALONE = Distributed(0, 1, torch.device("cpu"))


def sizes(model: str) -> dict[str, Any]:
    known = entry(model).model.Config.options()
    return {"model": model} | {size: 8 for size in SIZES if size in known}


def test_the_objectives_are_those_of_the_recipes_page() -> None:
    assert set(OBJECTIVES) - OF_GOALS == {"xe", "wxe", *REWARDED}
    assert REWARDED == ["scst-loo", "scst-greedy", "scst-consensus", "beam-reward"]


@pytest.mark.parametrize("model", names())
@pytest.mark.parametrize("objective", ["wxe", *REWARDED])
def test_every_captioner_takes_a_step_of_it(tiny_data: Path, tmp_path: Path, objective: str, model: str) -> None:
    """From what it earns alone: the captions of the dataset have no share in a reward."""
    changes = {"objective": objective, "samples": 6, "batch_size": 24, "xe_weight": 0.0, "dropout": 0.0}
    changes["no_repeat"] = 1  # or an untrained beam says one word again and again, and all its sentences earn nothing
    of = Trainer(tiny(tiny_data, tmp_path / "run", **sizes(model), **changes), ALONE, resume=False)
    before = {key: p.detach().clone() for key, p in of.state.model.named_parameters()}
    of.state.model.train()
    losses = of.step(next(iter(of.batches)), 0.01)
    assert all(loss.isfinite() for loss in losses.values())
    assert of.state.is_finite()
    moved = {key for key, p in of.state.model.named_parameters() if not torch.equal(p, before[key])}
    assert {key for key in moved if "output" in key}, "the words' scores have learned nothing"


@every_baseline
def test_it_is_trained_for_a_reward(tiny_data: Path, tmp_path: Path, model: str) -> None:
    changes = {"objective": "scst-loo", "samples": 2, "epochs": 1, "learning_rate": 0.001}
    run = train(tiny(tiny_data, tmp_path / "run", **sizes(model), **changes))
    assert len(column(run, "loss")) == 1


@pytest.mark.parametrize("objective", REWARDED)
def test_a_resumed_run_weighs_words_by_the_same_training_captions(
    tiny_data: Path, tmp_path: Path, objective: str
) -> None:
    """No checkpoint has document frequencies: they are counted when a run starts, over the training captions alone."""
    changes = {"model": "hoca-u", "objective": objective, "samples": 2, "batch_size": 12, "dropout": 0.2}
    whole, parts = (tiny(tiny_data, tmp_path / name, **changes) for name in ("whole", "parts"))
    train(whole)
    train(changed(parts, epochs=1))
    resumed: Any = Trainer(parts, ALONE, resume=True)
    dataset = FolderDataset(tiny_data)
    captions = {video.id: video.captions for video in dataset.videos("train")}
    expected = reward_of(captions, Vocabulary.build(dataset.corpus.captions("train")))
    assert resumed.step.objective.reward.of_references() == expected.of_references()
    train(parts, resume=True)
    assert_same_run(tmp_path / "parts", tmp_path / "whole")
