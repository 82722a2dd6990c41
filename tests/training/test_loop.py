"""What a run does with its recipe, seen in its folder."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hoca
from hoca.checkpoint import Checkpoints, read_checkpoint
from hoca.data import Batches, FolderDataset, read_vocabulary
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.evaluation import caption_split
from hoca.features import FeatureStore
from hoca.models import create
from hoca.training import Recipe, read_recipe, train
from hoca.training.loop import Trainer
from hoca.training.objectives import word_losses

from .tiny import COLOURS, changed, column, rows, tiny, write_dataset

ALONE = Distributed(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def learned(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A run that has learned something."""
    recipe = tiny(
        *(tiny_data, tmp_path_factory.mktemp("learned") / "run"),
        **{"epochs": 8, "schedule": "cosine", "warmup": 5, "hidden": 16, "learning_rate": 0.05, "dropout": 0.2},
    )
    train(recipe)
    return recipe


def weights(path: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(path).part("model")


def first_step(data: Path, run: Path, **changes: Any) -> dict[str, torch.Tensor]:
    """The weights after a single step, without dropout."""
    train(tiny(data, run, epochs=1, batch_size=1000, dropout=0.0, **changes))
    return weights(Checkpoints(run).newest()[0])


def test_it_learns(learned: Recipe) -> None:
    run = Path(learned.run)
    assert column(run, "loss")[-1] < column(run, "loss")[0] / 2
    assert column(run, "CIDEr")[-1] > 1


def test_the_table_has_a_row_per_epoch_with_the_rate_that_was_used(learned: Recipe) -> None:
    found = rows(Path(learned.run))
    assert [int(row["epoch"]) for row in found] == list(range(1, 9))
    assert [int(row["step"]) for row in found] == list(range(4, 33, 4))
    expected = [min(1, s / 5) * 0.05 * 0.5 * (1 + math.cos(math.pi * (s - 1) / 32)) for s in range(4, 33, 4)]
    assert column(Path(learned.run), "learning_rate") == pytest.approx(expected)


def test_the_run_folder_holds_what_the_design_says(learned: Recipe) -> None:
    run = Path(learned.run)
    assert read_recipe(run / "recipe.yaml") == learned
    model = hoca.load(run).model
    assert read_vocabulary(run / "vocabulary.json") == model.vocabulary
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_tensorboard_shows_every_epoch_once_even_after_a_resume(learned: Recipe, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(changed(learned, epochs=9), resume=True)
    events = accumulator.EventAccumulator(str(Path(learned.run) / "events")).Reload()
    assert [event.step for event in events.Scalars("CIDEr")] == list(range(4, 37, 4))
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(column(Path(learned.run), "loss"))


@pytest.mark.parametrize("decay", [0.0, 0.8])
def test_the_best_checkpoint_is_that_of_the_best_cider(tiny_data: Path, tmp_path: Path, decay: float) -> None:
    """A rate that is far too high after a good start, so that the last epochs are not the best, and neither are the
    latest weights as good as their average."""
    changes = {"epochs": 6, "hidden": 16, "learning_rate": 0.3, "dropout": 0.0, "ema_decay": decay}
    recipe = tiny(tiny_data, tmp_path / "run", **changes)
    train(recipe)
    scores = column(tmp_path / "run", "CIDEr")
    best = read_checkpoint(Checkpoints(tmp_path / "run").best)
    assert best.facts["score"] == max(scores)
    dataset = FolderDataset(tiny_data)
    greedily = replace(recipe.search, beam=1)
    found = caption_split(hoca.load(tmp_path / "run").model, dataset, "validation", greedily, ALONE)
    references = {video.id: list(video.captions) for video in dataset.videos("validation")}
    assert hoca.metrics.evaluate(references, found, ("CIDEr",)).corpus["CIDEr"] == pytest.approx(max(scores))


def test_it_stops_when_patience_runs_out(tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny(tiny_data, tmp_path / "run", epochs=9, learning_rate=0.0, patience=2)
    train(recipe)
    assert len(rows(tmp_path / "run")) == 3
    assert "no better validation CIDEr for 2 validations: stopped" in capsys.readouterr().err
    train(recipe, resume=True)
    assert len(rows(tmp_path / "run")) == 3
    train(changed(recipe, patience=3), resume=True)
    assert len(rows(tmp_path / "run")) == 4


def test_a_better_score_starts_the_patience_anew(tiny_data: Path, tmp_path: Path) -> None:
    """A rate so high that scores fall in between."""
    train(tiny(tiny_data, tmp_path / "run", epochs=12, hidden=16, learning_rate=0.3, dropout=0.0, patience=2))
    scores = column(tmp_path / "run", "CIDEr")
    best = scores.index(max(scores))
    assert any(after < before for before, after in pairwise(scores[: best + 1]))
    assert len(scores) == best + 1 + 2


def test_validation_may_be_rarer_than_epochs(tiny_data: Path, tmp_path: Path) -> None:
    train(tiny(tiny_data, tmp_path / "run", epochs=3, validate_every=2))
    assert [bool(row["CIDEr"]) for row in rows(tmp_path / "run")] == [False, True, False]
    assert read_checkpoint(Checkpoints(tmp_path / "run").best).facts["recipe"]["train"]["epochs"] == 3


def test_without_validation_videos_the_last_weights_are_kept(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", counts={"train": 8})
    train(tiny(data, tmp_path / "run"))
    best, last = (
        weights(path) for path in (Checkpoints(tmp_path / "run").best, Checkpoints(tmp_path / "run").newest()[0])
    )
    assert all(torch.equal(best[name], last[name]) for name in last)
    assert [row["CIDEr"] for row in rows(tmp_path / "run")] == ["", ""]


def test_data_that_cannot_be_learned_from_is_refused_at_once(tmp_path: Path) -> None:
    one = write_dataset(tmp_path / "one", counts={"train": 4, "validation": 1})
    none = write_dataset(tmp_path / "none", counts={"validation": 4})
    for data, message in ((one, "one validation video"), (none, "no videos in the split 'train'")):
        with pytest.raises(UserError, match=message):
            train(tiny(data, tmp_path / "run"))
    with pytest.raises(UserError, match=r"up to 5 steps in .* more than max_steps=4"):
        train(tiny(write_dataset(tmp_path / "data"), tmp_path / "run", max_steps=4))


def test_the_loss_is_the_mean_over_captions_and_the_first_step_is_adams(tiny_data: Path, tmp_path: Path) -> None:
    """One step on the whole training set at once, done here by hand."""
    recipe = tiny(tiny_data, tmp_path / "run", weight_decay=0.1, label_smoothing=0.2, gradient_clip=0.05)
    stepped = first_step(tiny_data, tmp_path / "run", weight_decay=0.1, label_smoothing=0.2, gradient_clip=0.05)
    dataset = FolderDataset(tiny_data)
    vocabulary = read_vocabulary(tmp_path / "run" / "vocabulary.json")
    torch.manual_seed(0)
    model = create("l-hoca-ubt", dataset.widths, vocabulary, **recipe.model.options | {"dropout": 0.0})
    (batch,) = Batches(dataset, "train", vocabulary, batch_size=1000)
    logits = model(batch.features, batch.lengths, batch.words[:, :, :-1])
    loss = word_losses(logits, batch.words[:, :, 1:], vocabulary.pad, smoothing=0.2).sum() / 49
    assert column(tmp_path / "run", "loss") == pytest.approx([loss.item()], rel=1e-6)
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    assert norm > 0.05  # so that the clip matters
    for name, parameter in model.named_parameters():
        gradient = parameter.grad * 0.05 / (norm + 1e-6)
        update = gradient / (gradient.abs() + 1e-8)  # what Adam's first step comes to
        expected = parameter * (1 - 0.02 * 0.1) - 0.02 * update
        settled = gradient.abs() > 1e-6  # below, rounding decides the direction
        torch.testing.assert_close(stepped[name][settled], expected[settled], rtol=1e-3, atol=1e-4)


def test_what_learns_nothing_has_the_same_loss_in_every_epoch(tiny_data: Path, tmp_path: Path) -> None:
    train(tiny(tiny_data, tmp_path / "run", epochs=3, learning_rate=0.0, dropout=0.0))
    losses = column(tmp_path / "run", "loss")
    assert losses == pytest.approx(losses[:1] * 3, rel=1e-5)


def test_the_average_of_the_weights_is_what_is_kept(tiny_data: Path, tmp_path: Path) -> None:
    train(tiny(tiny_data, tmp_path / "run", epochs=1, ema_decay=0.5, batch_size=25))
    newest, best = Checkpoints(tmp_path / "run").newest()[0], Checkpoints(tmp_path / "run").best
    last, kept = read_checkpoint(newest), weights(best)
    assert all(torch.equal(kept[name], last.part("average")[f"module.{name}"]) for name in kept)
    assert last.part("average")["n_averaged"] == 1


def test_bf16_trains(tiny_data: Path, tmp_path: Path) -> None:
    exact, rounded = (first_step(tiny_data, tmp_path / p, precision=p) for p in ("float32", "bf16"))
    assert all(value.dtype == torch.float32 for value in rounded.values())
    assert column(tmp_path / "bf16", "loss") == pytest.approx(column(tmp_path / "float32", "loss"), rel=0.02)
    assert column(tmp_path / "bf16", "loss") != column(tmp_path / "float32", "loss")
    assert not all(torch.equal(exact[name], rounded[name]) for name in exact)


def test_word_and_category_vectors_come_from_their_files(tiny_data: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words, names = random.normal(size=(3, 5)), random.normal(size=(4, 7))
    np.savez(tmp_path / "words.npz", words=np.array(["red", "thing", "unheard"]), vectors=words.astype(np.float32))
    np.savez(tmp_path / "names.npz", words=np.array(COLOURS), vectors=names.astype(np.float32))
    recipe = tiny(
        *(tiny_data, tmp_path / "run"),
        **{"word_vectors": str(tmp_path / "words.npz"), "category_vectors": str(tmp_path / "names.npz")},
    )
    trainer = Trainer(recipe, ALONE, resume=False)
    model = trainer.state.model
    embedding = model.embedding.weight
    assert embedding.shape[1] == 5
    for row, word in enumerate(("red", "thing")):
        np.testing.assert_allclose(embedding[model.vocabulary[word]].detach(), words[row], rtol=1e-6)
    assert list(model.config.categories) == sorted(COLOURS)
    for number, name in enumerate(model.config.categories):
        np.testing.assert_allclose(model.start.vectors[number], names[COLOURS.index(name)], rtol=1e-6)
    trainer.fit()
    assert torch.equal(hoca.load(tmp_path / "run").model.start.vectors, model.start.vectors)


def test_category_vectors_without_categories_are_a_mistake(tiny_data: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", counts={"train": 4})
    text = (data / "captions.jsonl").read_text()
    for colour in COLOURS:
        text = text.replace(f', "category": "{colour}"', "")
    (data / "captions.jsonl").write_text(text)
    with pytest.raises(UserError, match=r"no video of .* has a category"):
        train(tiny(data, tmp_path / "run", category_vectors="names.npz"))


@pytest.fixture
def enormous(tmp_path: Path) -> Path:
    """A dataset with one video of the largest features that a store holds."""
    data = write_dataset(tmp_path / "data", counts={"train": 12})
    store = FeatureStore(data / "features")
    header = store.header("train-05")
    features = {name: np.full_like(values, 65504) for name, values in store["train-05"].items()}
    store.write("train-05", features, specification=header.specification)
    return data


@pytest.mark.parametrize("every", [0, 1])
def test_a_loss_that_is_not_finite_stops_and_names_the_videos(tiny_data: Path, tmp_path: Path, every: int) -> None:
    recipe = tiny(tiny_data, tmp_path / "run", epochs=5, learning_rate=1e36, checkpoint_every=every, batch_size=2)
    with pytest.raises(
        UserError, match=r"(loss is (nan|inf)|no longer finite).* in the batch of train-\d\d, train-\d\d"
    ):
        train(recipe)
    for path in (tmp_path / "run").rglob("*.safetensors"):
        tensors = read_checkpoint(path).tensors.values()
        assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def test_huge_features_do_no_harm(enormous: Path, tmp_path: Path) -> None:
    """The encoders' gates saturate: a video that is off by far costs nothing but its own caption."""
    train(tiny(enormous, tmp_path / "run"))
    assert all(math.isfinite(loss) for loss in column(tmp_path / "run", "loss"))
