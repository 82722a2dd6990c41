"""The plain step, the one in fixed shapes and the captured one learn the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

from hoca.data import Batch
from hoca.distributed import Distributed, FlatGradients
from hoca.errors import UserError
from hoca.models import names
from hoca.training import train
from hoca.training.fixed_shapes import Inputs, lay_out, rounded
from hoca.training.loop import Trainer
from hoca.training.overlap import AsyncScalars, prefetch
from hoca.training.step import CapturedStep, PlainStep, StaticStep, Step

from .tiny import changed, column, tiny

CPU = torch.device("cpu")
BASELINES = [name for name in names() if "hoca" not in name]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def trainer(data: Path, run: Path, dist: Distributed | None = None, **changes: Any) -> Trainer:
    options = {"dropout": 0.0, "hidden": 16, "batch_size": 7, "precision": "float32", "cuda_graph": "off"} | changes
    return Trainer(tiny(data, run, **options), dist or Distributed(0, 1, CPU), resume=False)


def losses(of: Trainer, step: Step, count: int, rate: float = 0.01) -> list[float]:
    """Per caption, over epochs of different batches."""
    found: list[float] = []
    torch.manual_seed(0)
    of.state.model.train()
    for epoch in range(count):
        of.batches.set_epoch(epoch)
        for batch in prefetch(iter(of.batches), of.dist.device):
            if len(found) == count:
                return found
            (loss,) = AsyncScalars(step(batch, rate)["loss"][None]).tolist()
            found.append(loss / batch.caption_count)
    return found


def static(of: Trainer) -> StaticStep:
    return StaticStep(of.settings, of.state, of.step.objective)


def assert_same_weights(found: Trainer, expected: Trainer) -> None:
    kept = expected.state.kept_weights()
    assert found.state.kept_weights().keys() == kept.keys()
    for name, value in found.state.kept_weights().items():
        # Adam makes a step of a gradient that is nothing but rounding, which differs by processor.
        far = ~torch.isclose(value, kept[name], rtol=1e-2, atol=2e-4)
        assert int(far.sum()) <= far.numel() // 1000, name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ema_decay": 0.9, "gradient_clip": 0.5, "label_smoothing": 0.1, "weight_decay": 0.1},
        {"captions_per_video": 1, "model": "hoca-ubt", "batch_size": 5},
        {"model": "hoca-u", "normalise": True, "max_steps": 5},
        {"objective": "wxe"},
        {"model": "sa-lstm"},
        {"model": "sa-lstm", "objective": "wxe", "captions_per_video": 2, "batch_size": 5},
        {"model": "cst"},
        {"model": "tddf"},
        {"objective": "scst-loo", "batch_size": 8, "samples": 3},
        {"objective": "scst-greedy", "batch_size": 8, "samples": 2, "xe_weight": 0.0, "gradient_clip": 0.5},
        {"objective": "scst-consensus", "batch_size": 8, "samples": 2, "model": "sa-lstm"},
        {"objective": "scst-loo", "batch_size": 8, "samples": 2, "model": "recnet-global"},
    ],
    ids=[
        "default",
        "options",
        "pairs",
        "unary",
        "weighted",
        "whole captions",
        "weighted whole captions",
        "pooled",
        "patterns",
        "rewards",
        "rewards alone",
        "rewards of whole captions",
        "rewards beside the model's own loss",
    ],
)
def test_fixed_shapes_learn_what_the_plain_step_learns(
    tiny_data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Ragged videos, some without sound; the last batch of an epoch is smaller, but where captions are drawn."""
    plain, fixed = (trainer(tiny_data, tmp_path / name, **changes) for name in ("plain", "fixed"))
    expected, found = losses(plain, plain.step, 12), losses(fixed, static(fixed), 12)
    assert found == pytest.approx(expected, rel=1e-4)
    assert_same_weights(fixed, plain)


@pytest.mark.parametrize(
    ("model", "own"),
    [("recnet-global", "reconstruction"), ("recnet-local", "reconstruction"), ("scn", "tags"), ("mm-tgm", "topics")],
)
def test_fixed_shapes_have_the_losses_of_the_model_by_name(
    tiny_data: Path, tmp_path: Path, model: str, own: str
) -> None:
    plain, fixed = (trainer(tiny_data, tmp_path / name, model=model) for name in ("plain", "fixed"))
    steps = plain.step, static(fixed)
    for batch in plain.batches:
        expected, found = ({name: float(value) for name, value in step(batch, 0.01).items()} for step in steps)
        assert list(found) == ["loss", "words", own]
        assert found == pytest.approx(expected, rel=1e-4)
    assert_same_weights(fixed, plain)


@pytest.mark.parametrize("model", BASELINES)
def test_fixed_shapes_have_the_losses_of_every_baseline(tiny_data: Path, tmp_path: Path, model: str) -> None:
    plain, fixed = (trainer(tiny_data, tmp_path / name, model=model) for name in ("plain", "fixed"))
    assert losses(fixed, static(fixed), 3) == pytest.approx(losses(plain, plain.step, 3), rel=1e-4)


@pytest.mark.parametrize("model", ["hoca-u", "l-hoca-ubt", "hoca-ubt"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bf16_in_fixed_shapes_learns_what_the_plain_step_learns(
    tiny_data: Path, tmp_path: Path, model: str, smoothing: float
) -> None:
    """The weights are copied together and the vocabulary is filled up: neither may be seen."""
    changes = {"model": model, "precision": "bf16", "label_smoothing": smoothing, "gradient_clip": 0.5}
    plain, fixed = (trainer(tiny_data, tmp_path / name, **changes) for name in ("plain", "fixed"))
    expected = losses(plain, plain.step, 12, rate=1e-3)
    assert losses(fixed, static(fixed), 12, rate=1e-3) == pytest.approx(expected, rel=1e-2)


def test_200_steps_in_fixed_shapes_have_the_losses_of_plain_ones(tiny_data: Path, tmp_path: Path) -> None:
    changes = {"model": "l-hoca-ub", "modalities": ["image", "audio"], "hidden": 8, "batch_size": 24}
    plain, fixed = (trainer(tiny_data, tmp_path / name, **changes) for name in ("plain", "fixed"))
    expected = losses(plain, plain.step, 200, rate=3e-3)
    assert losses(fixed, static(fixed), 200, rate=3e-3) == pytest.approx(expected, rel=1e-3)
    assert expected[-1] < expected[0] / 3


def test_gradients_pass_through_one_piece_of_memory_between_processes(tiny_data: Path, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        alone = trainer(tiny_data, tmp_path / "alone")
        joined = trainer(tiny_data, tmp_path / "joined", Distributed(0, 1, CPU, initialized=True))
        assert losses(joined, static(joined), 6) == pytest.approx(losses(alone, alone.step, 6), rel=1e-4)
    finally:
        torch.distributed.destroy_process_group()


CLIPPED = {"gradient_clip": 0.1, "batch_size": 8, "optimizer": "amsgrad"}


def one_of_two(rank: int, data: Path, folder: Path) -> None:
    """A process that learns together with another one; the first of them leaves its weights."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(folder / "store"), 2), rank=rank, world_size=2
    )
    of = trainer(data, folder / "together", Distributed(rank, 2, CPU, initialized=True), **CLIPPED)
    losses(of, static(of), 4)
    if rank == 0:
        torch.save(of.state.model.state_dict(), folder / "weights.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_clip_the_gradient_of_both_in_fixed_shapes(tiny_data: Path, tmp_path: Path) -> None:
    """Clipped one by one, the gradients of both would weigh alike, however much their captions have to teach."""
    torch.multiprocessing.spawn(one_of_two, (tiny_data, tmp_path), nprocs=2)
    alone = trainer(tiny_data, tmp_path / "alone", **CLIPPED)
    losses(alone, alone.step, 4)
    together = torch.load(tmp_path / "weights.pt", weights_only=True)
    for name, value in alone.state.model.state_dict().items():
        torch.testing.assert_close(together[name], value, rtol=1e-3, atol=2e-4, msg=name)


def test_what_a_batch_does_not_reach_keeps_no_gradient_of_the_one_before() -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        parameters = [torch.nn.Parameter(torch.ones(size)) for size in (2, 3)]
        gradients = FlatGradients(parameters)
        for reached in (parameters, parameters[:1]):
            for parameter in parameters:
                parameter.grad = None
            for parameter in reached:
                parameter.grad = torch.ones_like(parameter)
            gradients.reduce()
        assert [parameter.grad.tolist() for parameter in parameters] == [[1, 1], [0, 0, 0]]
    finally:
        torch.distributed.destroy_process_group()


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
    with pytest.raises(UserError, match="cuda_graph=on needs a GPU: use cuda_graph=auto"):
        trainer(tiny_data, tmp_path / "run", cuda_graph="on")


def test_a_smaller_batch_draws_for_its_own_videos_alone(tiny_data: Path, tmp_path: Path) -> None:
    of = trainer(tiny_data, tmp_path / "run", objective="scst-loo", samples=3, batch_size=9)
    step, sizes = static(of), set()
    for batch in of.batches:
        found = step._examples(batch)[1]()
        sizes.add(len(batch))
        assert found.words.shape[:2] == (len(batch), 3 + batch.words.shape[1])
        assert found.weights.shape == found.words.shape[:2]
        assert float(found.weights[:, :3].sum()) == pytest.approx(0.0, abs=1e-4)
        assert torch.equal(found.words[:, 3:, : batch.words.shape[2]], batch.words)
    assert len(sizes) == 2


@needs_gpu
def test_200_captured_steps_on_a_gpu_have_the_losses_of_plain_ones(
    tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    dist = Distributed(0, 1, torch.device("cuda", 0))
    plain, fast = (
        trainer(tiny_data, tmp_path / graph, dist, cuda_graph=graph, device="cuda", ema_decay=0.99)
        for graph in ("off", "on")
    )
    assert isinstance(plain.step, PlainStep)
    assert isinstance(fast.step, CapturedStep)
    expected = losses(plain, plain.step, 200, rate=1e-3)
    assert losses(fast, fast.step, 200, rate=1e-3) == pytest.approx(expected, rel=1e-3)
    assert expected[-1] < expected[0] / 2


@needs_gpu
@pytest.mark.parametrize(
    "changes",
    [{"objective": "wxe"}, {"objective": "scst-loo", "batch_size": 8}, *({"model": name} for name in BASELINES)],
    ids=["weighted", "rewards", *BASELINES],
)
def test_captured_steps_have_the_losses_of_plain_ones_by_name(
    tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    dist = Distributed(0, 1, torch.device("cuda", 0))
    plain, fast = (
        trainer(tiny_data, tmp_path / graph, dist, cuda_graph=graph, device="cuda", **changes)
        for graph in ("off", "on")
    )
    assert isinstance(fast.step, CapturedStep)
    for epoch in range(4):
        for of in (plain, fast):
            of.batches.set_epoch(epoch)
        for pair in zip(plain.batches, fast.batches, strict=True):
            expected, found = (_seeded_losses(of.step, batch) for of, batch in zip((plain, fast), pair, strict=True))
            assert list(found) == list(expected)
            assert found == pytest.approx(expected, rel=1e-3)


def _seeded_losses(step: Step, batch: Batch) -> dict[str, float]:
    """Both kinds of step draw the same captions."""
    torch.manual_seed(0)
    return {name: float(value) for name, value in step(batch, 1e-3).items()}


@needs_gpu
def test_a_run_resumed_on_a_gpu_goes_on_as_if_never_stopped(tiny_data: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"device": "cuda", "ema_decay": 0.9, "learning_rate": 1e-3, "dropout": 0.3}
    whole, parts = (tiny(tiny_data, tmp_path / name, epochs=4, **changes) for name in ("whole", "parts"))
    train(whole)
    train(changed(parts, epochs=2))
    train(parts, resume=True)
    assert column(tmp_path / "parts", "loss") == pytest.approx(column(tmp_path / "whole", "loss"), rel=1e-2)


@needs_gpu
@pytest.mark.parametrize("model", ["l-hoca-ubt", *BASELINES])
def test_a_captured_bf16_step_with_dropout_learns(tiny_data: Path, tmp_path: Path, model: str) -> None:
    dist = Distributed(0, 1, torch.device("cuda", 0))
    changes = {"cuda_graph": "on", "device": "cuda", "precision": "bf16", "dropout": 0.2, "modality_dropout": 0.2}
    of = trainer(tiny_data, tmp_path / "run", dist, model=model, **changes)
    found = losses(of, of.step, 100)
    assert found[-1] < found[0] / 2
