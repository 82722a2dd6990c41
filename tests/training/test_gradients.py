"""The ratio of an auxiliary loss's gradient to the words' is told every epoch, and telling it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hoca.distributed import Distributed
from hoca.models import Weighted
from hoca.training import train
from hoca.training.gradients import gradient_ratios, ratios
from hoca.training.loop import Trainer

from .tiny import column, rows, tiny

ALONE = Distributed(0, 1, torch.device("cpu"))
RATIO = "reconstruction_gradient_ratio"


def of_first_batch(data: Path, run: Path, **changes: Any) -> dict[str, float]:
    of = Trainer(tiny(data, run, dropout=0.0, **changes), ALONE, resume=False)
    of.state.model.train()
    return gradient_ratios(of.recipe, of.state, of.batches[0])


def test_it_is_of_the_weights_that_both_losses_reach() -> None:
    shared, alone, other = (nn.Parameter(torch.ones(2)) for _ in range(3))
    losses = {
        "words": Weighted(1.0, 3 * shared.sum() + 100 * alone.sum()),
        "near": Weighted(0.5, 12 * shared.sum() + 100 * other.sum()),
        "far": Weighted(1.0, other.sum()),
        "frozen": Weighted(1.0, torch.ones(())),
    }
    assert ratios(losses, [shared, alone, other]) == pytest.approx({"near": 2.0})


def test_twice_the_weight_is_twice_the_ratio(tiny_data: Path, tmp_path: Path) -> None:
    once, twice = (
        of_first_batch(tiny_data, tmp_path / str(weight), model="recnet-local", reconstruction=weight)[RATIO]
        for weight in (0.1, 0.2)
    )
    assert twice == pytest.approx(2 * once, rel=1e-4)
    assert once > 0


def test_a_critic_that_shares_nothing_with_the_words_has_none(tiny_data: Path, tmp_path: Path) -> None:
    assert of_first_batch(tiny_data, tmp_path / "run", model="hrl") == {}


def test_nothing_of_the_run_changes(tiny_data: Path, tmp_path: Path) -> None:
    of = Trainer(tiny(tiny_data, tmp_path / "run", model="recnet-global", dropout=0.5), ALONE, resume=False)
    of.state.model.train()
    of.step(of.batches[0], 0.01)
    random, weights = torch.get_rng_state(), of.state.kept_weights()
    before = {name: weight.clone() for name, weight in weights.items()}
    gradients = {
        name: weight.grad.clone() for name, weight in of.state.model.named_parameters() if weight.grad is not None
    }
    assert gradient_ratios(of.recipe, of.state, of.batches[1])[RATIO] > 0
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(weight, before[name]) for name, weight in of.state.kept_weights().items())
    for name, weight in of.state.model.named_parameters():
        assert (name in gradients) == (weight.grad is not None)
        assert weight.grad is None or torch.equal(weight.grad, gradients[name])


@pytest.mark.parametrize("objective", ["xe", "scst-loo"])
def test_every_epoch_of_the_table_has_it(tiny_data: Path, tmp_path: Path, objective: str) -> None:
    changes = {"model": "recnet-global", "objective": objective, "samples": 2, "batch_size": 12}
    run = train(tiny(tiny_data, tmp_path / "run", **changes))
    assert list(rows(run)[0])[2:7] == ["loss", "words", "reconstruction", RATIO, "CIDEr"]
    assert all(0 < ratio < 100 for ratio in column(run, RATIO))


def test_a_model_without_losses_of_its_own_has_no_such_column(tiny_data: Path, tmp_path: Path) -> None:
    run = train(tiny(tiny_data, tmp_path / "run", model="sa-lstm", epochs=1))
    assert list(rows(run)[0]) == ["epoch", "step", "loss", "CIDEr", "learning_rate"]
