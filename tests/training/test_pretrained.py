"""Beginning from a trained model: its weights, its words and its sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import hoca
from hoca.checkpoint import Checkpoints, read_checkpoint, write_checkpoint
from hoca.data import FolderDataset
from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.training import Recipe, train

from .tiny import changed, column, tiny, write_captions, write_dataset


@pytest.fixture(scope="module")
def first(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny(tiny_data, tmp_path_factory.mktemp("pretrained") / "first", epochs=8))


def weights(run: Path) -> dict[str, Tensor]:
    return read_checkpoint(Checkpoints(run).best).part("model")


def test_a_run_begins_where_the_other_one_ended(first: Path, tiny_data: Path, tmp_path: Path) -> None:
    second = train(tiny(tiny_data, tmp_path / "second", init_from=str(first), epochs=1, learning_rate=0.0))
    kept, went = weights(first), weights(second)
    assert kept.keys() == went.keys()
    for key in kept:
        torch.testing.assert_close(went[key], kept[key])


def test_sizes_come_from_the_start_and_dropout_from_the_recipe(first: Path, tiny_data: Path, tmp_path: Path) -> None:
    values = tiny(tiny_data, tmp_path / "run", init_from=str(first), epochs=1).to_json() | {"model": {"dropout": 0.25}}
    config = hoca.load(train(Recipe.of(values))).model.config
    before = hoca.load(first).model.config
    assert config.dropout == 0.25
    assert replace(config, dropout=before.dropout) == before


def test_another_size_than_that_of_the_start_is_refused(first: Path, tiny_data: Path, tmp_path: Path) -> None:
    told = r"init_from=.* do not fit: .* is \[.*\], the recipe's model has \[.*\]: leave out the options that change"
    with pytest.raises(UserError, match=told):
        train(tiny(tiny_data, tmp_path / "run", init_from=str(first), hidden=99))


def test_a_model_with_more_parts_begins_from_one_with_fewer(tiny_data: Path, tmp_path: Path) -> None:
    settings = {"epochs": 1, "learning_rate": 0.0}
    first = train(tiny(tiny_data, tmp_path / "first", model="sa-lstm", **settings))
    second = train(tiny(tiny_data, tmp_path / "second", model="recnet-global", init_from=str(first), **settings))
    kept, went = weights(first), weights(second)
    assert all(torch.equal(went[key], kept[key]) for key in kept)
    assert {key.partition(".")[0] for key in went.keys() - kept.keys()} == {"reconstructors"}
    told = "do not fit sa-lstm with these options: only the trained model has reconstructors"
    with pytest.raises(UserError, match=told):
        train(tiny(tiny_data, tmp_path / "third", model="sa-lstm", init_from=str(second), **settings))


def test_new_words_are_learned_and_old_ones_keep_their_places(first: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    lines = [{"id": id, "split": "train", "captions": ["a zebra"]} for id in FeatureStore(data / "features").ids()]
    write_captions(data, lines)
    second = train(tiny(data, tmp_path / "run", init_from=str(first), epochs=8))
    old, new = (hoca.load(run).model.vocabulary.words for run in (first, second))
    assert new == [*old, "zebra"]
    dataset = FolderDataset(data)
    captioner = hoca.load(second)
    model = captioner.model
    memory = model.encode(*dataset.padded([lines[0]["id"]]))
    assert captioner.search(model, memory).texts(model.vocabulary)[0][0] == "a zebra"


def test_a_dataset_without_a_modality_that_the_start_has(first: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", widths={"image": 6, "motion": 5})
    second = train(tiny(data, tmp_path / "run", init_from=str(first), epochs=1))
    assert list(hoca.load(second).model.config.modalities) == ["image", "motion", "audio"]
    assert set(hoca.load(second).specification) == {"image", "motion", "audio"}


def test_other_features_are_refused(first: Path, tmp_path: Path) -> None:
    wider = write_dataset(tmp_path / "wider", widths={"image": 7})
    with pytest.raises(UserError, match=r"trained on image features of test .* 6 wide.* 7 wide: extract them"):
        train(tiny(wider, tmp_path / "a", init_from=str(first)))
    foreign = write_dataset(tmp_path / "foreign", widths={"image": 6, "smell": 4})
    with pytest.raises(UserError, match="also has smell: leave it out with modalities="):
        train(tiny(foreign, tmp_path / "b", init_from=str(first)))


def test_an_edited_start_is_told(first: Path, tiny_data: Path, tmp_path: Path) -> None:
    found = read_checkpoint(Checkpoints(first).best)
    del found.tensors["model.output.linear.bias"]
    write_checkpoint(tmp_path / "edited.safetensors", found)
    with pytest.raises(UserError, match="do not fit its own configuration"):
        train(tiny(tiny_data, tmp_path / "run", init_from=str(tmp_path / "edited.safetensors")))


def test_a_run_with_a_start_resumes(first: Path, tiny_data: Path, tmp_path: Path) -> None:
    recipe = tiny(tiny_data, tmp_path / "run", init_from=str(first), epochs=1)
    train(recipe)
    train(changed(recipe, epochs=2), resume=True)
    whole = tiny(tiny_data, tmp_path / "whole", init_from=str(first), epochs=2)
    train(whole)
    assert column(tmp_path / "run", "loss") == column(tmp_path / "whole", "loss")
