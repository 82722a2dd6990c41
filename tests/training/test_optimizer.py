"""Every optimizer is torch's of that name, in every kind of step, and a resumed run has its state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hoca.checkpoint import Checkpoints, read_checkpoint, write_checkpoint
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.training import Recipe, train
from hoca.training.optimizer import OPTIMIZERS, begin_optimizer, build_optimizer, kept_of_a_weight, set_rate
from hoca.training.recipe import TrainSection, read_run
from hoca.training.step import CapturedStep, PlainStep

from .test_resume import assert_same_run
from .test_step import assert_same_weights, losses, needs_gpu, static, trainer
from .tiny import changed, column, tiny

RATES = {"adamw": 0.01, "adam": 0.01, "amsgrad": 0.01, "adadelta": 30.0}  # at which each learns something at once
every_optimizer = pytest.mark.parametrize("name", RATES)


def of_torch(name: str, parameters: Any, **options: Any) -> torch.optim.Optimizer:
    if name == "amsgrad":
        return torch.optim.Adam(parameters, amsgrad=True, **options)
    return {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "adadelta": torch.optim.Adadelta}[name](
        parameters, **options
    )


def test_a_rate_is_known_for_every_one() -> None:
    assert RATES.keys() == OPTIMIZERS.keys()
    assert TrainSection().optimizer == "adamw"


@every_optimizer
def test_it_is_torchs_with_the_recipes_rate_and_decay(name: str) -> None:
    """Steps of different gradients, some of which a weight does not get; decoupled decay is AdamW's alone."""
    torch.manual_seed(0)
    models: list[Any] = [nn.ModuleList([nn.Linear(3, 2), nn.Linear(2, 1)]) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    settings = TrainSection(optimizer=name, learning_rate=0.5, weight_decay=0.1)  # type: ignore[arg-type]
    optimizers = build_optimizer(settings, models[0]), of_torch(name, models[1].parameters(), lr=0.25, weight_decay=0.1)
    set_rate(optimizers[0], 0.25)
    for step in range(5):
        x = torch.randn(4, 3)
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            hidden = model[0](x)
            (model[1](hidden) if step % 2 else hidden).square().sum().backward()
            optimizer.step()
    for found, expected in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(found, expected)


@every_optimizer
def test_what_it_keeps_of_a_weight_is_known_before_its_first_step(name: str) -> None:
    model: Any = nn.Linear(3, 2)
    optimizers = [build_optimizer(TrainSection(optimizer=name), model) for _ in range(2)]  # type: ignore[arg-type]
    begin_optimizer(optimizers[0])
    model(torch.ones(1, 3)).sum().backward()
    optimizers[1].step()
    for parameter in model.parameters():
        begun, stepped = (optimizer.state[parameter] for optimizer in optimizers)
        assert begun.keys() == stepped.keys() == {"step", *kept_of_a_weight(optimizers[0])}
        for key, value in stepped.items():
            assert (begun[key].shape, begun[key].dtype) == (value.shape, value.dtype)


@every_optimizer
def test_fixed_shapes_learn_what_the_plain_step_learns(tiny_data: Path, tmp_path: Path, name: str) -> None:
    changes = {"model": "hoca-u", "optimizer": name, "weight_decay": 0.01, "gradient_clip": 0.5}
    plain, fixed = (trainer(tiny_data, tmp_path / folder, **changes) for folder in ("plain", "fixed"))
    expected = losses(plain, plain.step, 12, rate=RATES[name])
    assert losses(fixed, static(fixed), 12, rate=RATES[name]) == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]
    assert_same_weights(fixed, plain)


def begun(data: Path, run: Path, name: str, **changes: Any) -> Recipe:
    """A recipe of two epochs, after the first one of which it was stopped."""
    options = {"optimizer": name, "learning_rate": RATES[name], "checkpoint_every": 2}
    recipe = tiny(data, run, model="hoca-u", **options, **changes)
    train(changed(recipe, epochs=1))
    return recipe


@every_optimizer
def test_a_resumed_run_ends_with_the_same_bits(tiny_data: Path, tmp_path: Path, name: str) -> None:
    recipe = begun(tiny_data, tmp_path / "parts", name)
    train(recipe, resume=True)
    train(replace(recipe, run=str(tmp_path / "whole")))
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_a_run_is_not_resumed_with_another_one(tiny_data: Path, tmp_path: Path) -> None:
    recipe = begun(tiny_data, tmp_path / "run", "amsgrad")
    with pytest.raises(UserError, match=r"begun with train.optimizer=amsgrad, now it is adam: resume with the same"):
        train(changed(recipe, optimizer="adam"), resume=True)


def test_a_checkpoint_without_a_part_of_the_state_is_not_resumed(tiny_data: Path, tmp_path: Path) -> None:
    recipe = begun(tiny_data, tmp_path / "run", "amsgrad")
    path = Checkpoints(tmp_path / "run").newest()[0]
    checkpoint = read_checkpoint(path)
    for key in [key for key in checkpoint.tensors if key.endswith("max_exp_avg_sq")]:
        del checkpoint.tensors[key]
    write_checkpoint(path, checkpoint)
    with pytest.raises(UserError, match="lacks what a run resumes from"):
        train(recipe, resume=True)


def test_a_run_of_before_the_option_goes_on_with_adamw(tiny_data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe = begun(tiny_data, run, "adamw")
    lines = (run / "recipe.yaml").read_text().splitlines()
    (run / "recipe.yaml").write_text("\n".join(line for line in lines if "optimizer:" not in line))
    for path in Checkpoints(run).newest():
        checkpoint = read_checkpoint(path)
        del checkpoint.facts["recipe"]["train"]["optimizer"]
        write_checkpoint(path, checkpoint)
    assert read_run(run).train.optimizer == "adamw"
    train(recipe, resume=True)
    assert len(column(run, "loss")) == 2


@needs_gpu
@every_optimizer
def test_captured_steps_have_the_losses_of_plain_ones(
    tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    dist = Distributed(0, 1, torch.device("cuda", 0))
    changes = {"optimizer": name, "weight_decay": 0.01, "gradient_clip": 1.0, "device": "cuda"}
    plain, fast = (trainer(tiny_data, tmp_path / graph, dist, cuda_graph=graph, **changes) for graph in ("off", "on"))
    assert isinstance(plain.step, PlainStep)
    assert isinstance(fast.step, CapturedStep)
    for rate in (RATES[name] / 10, RATES[name] / 5):  # a captured step follows the schedule
        expected = losses(plain, plain.step, 40, rate=rate)
        assert losses(fast, fast.step, 40, rate=rate) == pytest.approx(expected, rel=1e-3)
    assert expected[-1] < expected[0]


@needs_gpu
@every_optimizer
def test_a_run_on_a_gpu_resumes_where_it_was(tiny_data: Path, tmp_path: Path, name: str) -> None:
    recipe = begun(tiny_data, tmp_path / "parts", name, device="cuda", dropout=0.3)
    train(recipe, resume=True)
    train(replace(recipe, run=str(tmp_path / "whole")))
    assert column(tmp_path / "parts", "loss") == pytest.approx(column(tmp_path / "whole", "loss"), rel=1e-2)
