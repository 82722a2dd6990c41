"""The plain step, the one in fixed shapes and the captured one learn the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hoca.errors import UserError
from hoca.training import train
from hoca.training.ahead import Late, beside
from hoca.training.distributed import Processes
from hoca.training.layout import Inputs, lay_out, rounded
from hoca.training.loop import Trainer
from hoca.training.step import CapturedStep, PlainStep, StaticStep, Step

from .tiny import column, tiny

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def trainer(data: Path, run: Path, here: Processes | None = None, **changes: Any) -> Trainer:
    options = {"dropout": 0.0, "hidden": 16, "batch": 7, "precision": "float32", "step": "plain"} | changes
    return Trainer(tiny(data, run, **options), here or Processes(0, 1, CPU), resume=False)


def losses(of: Trainer, step: Step, count: int, rate: float = 0.01) -> list[float]:
    """Per caption, over epochs of different batches."""
    found: list[float] = []
    of.state.model.train()
    for epoch in range(count):
        of.batches.set_epoch(epoch)
        for batch in beside(iter(of.batches), of.here.device):
            if len(found) == count:
                return found
            found.append(float(Late(step(batch, rate))) / batch.caption_count)
    return found


def static(of: Trainer) -> StaticStep:
    return StaticStep(of.recipe, of.state, of.vocabulary.pad)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"average": 0.9, "gradient_clip": 0.5, "label_smoothing": 0.1, "weight_decay": 0.1},
        {"captions": 1, "model": "hoca-ubt", "batch": 5},
        {"model": "hoca-u", "normalise": True, "max_steps": 5},
    ],
    ids=["default", "options", "pairs", "unary"],
)
def test_fixed_shapes_learn_what_the_plain_step_learns(
    tiny_data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Ragged videos, some without sound; the last batch of an epoch is smaller."""
    plain, fixed = (trainer(tiny_data, tmp_path / name, **changes) for name in ("plain", "fixed"))
    expected, found = losses(plain, plain.step, 12), losses(fixed, static(fixed), 12)
    assert found == pytest.approx(expected, rel=1e-4)
    for (name, value), other in zip(
        plain.state.kept_weights().items(), fixed.state.kept_weights().values(), strict=True
    ):
        torch.testing.assert_close(other, value, rtol=1e-2, atol=2e-4, msg=name)


def test_200_steps_in_fixed_shapes_have_the_losses_of_plain_ones(tiny_data: Path, tmp_path: Path) -> None:
    changes = {"model": "l-hoca-ub", "modalities": ["image", "audio"], "hidden": 8, "batch": 24}
    plain, fixed = (trainer(tiny_data, tmp_path / name, **changes) for name in ("plain", "fixed"))
    expected = losses(plain, plain.step, 200, rate=3e-3)
    assert losses(fixed, static(fixed), 200, rate=3e-3) == pytest.approx(expected, rel=1e-3)
    assert expected[-1] < expected[0] / 3


def test_gradients_pass_through_one_piece_of_memory_between_processes(tiny_data: Path, tmp_path: Path) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        alone = trainer(tiny_data, tmp_path / "alone")
        joined = trainer(tiny_data, tmp_path / "joined", Processes(0, 1, CPU, joined=True))
        assert losses(joined, static(joined), 6) == pytest.approx(losses(alone, alone.step, 6), rel=1e-4)
    finally:
        dist.destroy_process_group()


CLIPPED = {"gradient_clip": 0.1, "batch": 8}


def one_of_two(rank: int, data: Path, folder: Path) -> None:
    """A process that learns together with another one; the first of them leaves its weights."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), 2), rank=rank, world_size=2)
    of = trainer(data, folder / "together", Processes(rank, 2, CPU, joined=True), **CLIPPED)
    losses(of, static(of), 4)
    if rank == 0:
        torch.save(of.state.model.state_dict(), folder / "weights.pt")
    dist.destroy_process_group()


def test_two_processes_clip_the_gradient_of_both_in_fixed_shapes(tiny_data: Path, tmp_path: Path) -> None:
    """Clipped one by one, the gradients of both would weigh alike, however much their captions have to teach."""
    torch.multiprocessing.spawn(one_of_two, (tiny_data, tmp_path), nprocs=2)
    alone = trainer(tiny_data, tmp_path / "alone", **CLIPPED)
    losses(alone, alone.step, 4)
    together = torch.load(tmp_path / "weights.pt", weights_only=True)
    for name, value in alone.state.model.state_dict().items():
        torch.testing.assert_close(together[name], value, rtol=1e-3, atol=2e-4, msg=name)


def test_few_shapes_serve_an_epoch_and_hold_no_more_places_than_words(tiny_data: Path, tmp_path: Path) -> None:
    of = trainer(tiny_data, tmp_path / "run")
    for batch in of.batches:
        shape, numbers = lay_out(batch, videos=7, pad=of.vocabulary.pad, max_steps=of.state.model.config.max_steps)
        inputs = Inputs(shape, of.state.model.config.modalities, CPU)
        inputs.fill(batch, numbers)
        said = (batch.words[:, :, 1:] != of.vocabulary.pad).sum((1, 2))
        assert shape.places == min(rounded(int(said.max()), 16), shape.captions * shape.words)
        assert int((inputs.targets != of.vocabulary.pad).sum()) == int(said.sum())
        predicted = inputs.words.flatten(1).gather(1, inputs.places)  # [B, Q]: the word before each target
        first = predicted[inputs.targets != of.vocabulary.pad] == of.vocabulary.bos
        assert int(first.sum()) == batch.caption_count
        assert set(inputs.features) == set(inputs.lengths)


def test_nothing_of_the_batch_before_is_left(tiny_data: Path, tmp_path: Path) -> None:
    of = trainer(tiny_data, tmp_path / "run")
    batch = next(iter(of.batches))
    shape, numbers = lay_out(batch, videos=9, pad=of.vocabulary.pad, max_steps=of.state.model.config.max_steps)
    inputs = Inputs(shape, of.state.model.config.modalities, CPU)
    for values in inputs.features.values():
        values.fill_(torch.nan)
    inputs.fill(batch, numbers)
    assert all(bool(torch.isfinite(values).all()) for values in inputs.features.values())


def test_sizes_are_rounded_up_by_an_eighth_at_most() -> None:
    for least in (1, 8, 16):
        sizes = [rounded(size, least) for size in range(1, 2000)]
        assert sizes == sorted(sizes)
        assert all(size <= found < max(size * 1.125, size + least) for size, found in enumerate(sizes, start=1))
        assert len(set(sizes)) < 80


def test_a_captured_step_without_a_gpu_is_an_error(tiny_data: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="step=captured needs a GPU"):
        trainer(tiny_data, tmp_path / "run", step="captured")


@needs_gpu
def test_200_captured_steps_on_a_gpu_have_the_losses_of_plain_ones(
    tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    here = Processes(0, 1, torch.device("cuda", 0))
    plain, fast = (
        trainer(tiny_data, tmp_path / step, here, step=step, device="cuda", average=0.99)
        for step in ("plain", "captured")
    )
    assert isinstance(plain.step, PlainStep)
    assert isinstance(fast.step, CapturedStep)
    expected = losses(plain, plain.step, 200, rate=1e-3)
    assert losses(fast, fast.step, 200, rate=1e-3) == pytest.approx(expected, rel=1e-3)
    assert expected[-1] < expected[0] / 2


@needs_gpu
def test_a_run_resumed_on_a_gpu_goes_on_as_if_never_stopped(tiny_data: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"device": "cuda", "average": 0.9, "learning_rate": 1e-3, "dropout": 0.3}
    whole, parts = (tiny(tiny_data, tmp_path / name, epochs=4, **changes) for name in ("whole", "parts"))
    train(whole)
    train(replace(parts, epochs=2))
    train(parts, resume=True)
    assert column(tmp_path / "parts", "loss") == pytest.approx(column(tmp_path / "whole", "loss"), rel=1e-2)


@needs_gpu
def test_a_captured_bf16_step_with_dropout_learns(tiny_data: Path, tmp_path: Path) -> None:
    here = Processes(0, 1, torch.device("cuda", 0))
    changes = {"step": "captured", "device": "cuda", "precision": "bf16", "dropout": 0.2, "modality_dropout": 0.2}
    of = trainer(tiny_data, tmp_path / "run", here, **changes)
    found = losses(of, of.step, 100)
    assert found[-1] < found[0] / 2
