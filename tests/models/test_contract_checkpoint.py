"""What every captioner must fulfil as to its checkpoint: one file gives the same model back, and all that it knows.

Words, tags, topics and other lists come from the training captions and are in the file. Document frequencies of
a reward are not: tests/training/test_rewards.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from hoca.checkpoint import Checkpoint, load_model, model_facts, write_checkpoint
from hoca.generation import Search
from hoca.models import CaptionModel, names

from .test_contract import REFERENCES, captioner, every_model
from .tiny import RAGGED, Features, captions, videos

OTHERS = [["loudly", "a man runs"], ["sings"]]  # captions with other words in front
LISTED = {  # captioners with a list: its title, and what it has of REFERENCES, the most frequent words first
    "scn": ("tags", ["dog", "man", "red", "runs", "loudly"]),
    "lstm-tsa": ("attributes in image", ["dog", "red", "runs", "loudly", "man"]),  # by videos, not by captions
    "dense-cap": ("words", ["dog", "red", "runs", "loudly", "man"]),
}
TOPICS = "mm-tgm"


def written(model: CaptionModel, path: Path) -> CaptionModel:
    """The model that is read from a checkpoint of this one."""
    weights = {f"model.{key}": value for key, value in model.state_dict().items()}
    facts = model_facts(model, {"image": {"backbone": "test"}}, Search(beam=3))
    write_checkpoint(path, Checkpoint(weights, facts))
    loaded = load_model(path)
    assert loaded.search == Search(beam=3)
    assert loaded.specification == {"image": {"backbone": "test"}}
    return loaded.model


@every_model
def test_a_checkpoint_gives_the_same_model_back(name: str, tmp_path: Path) -> None:
    model, words = captioner(name).float(), captions()
    features = {m: x.float() for m, x in videos().items()}
    found = written(model, tmp_path / "model.safetensors")
    assert type(found) is type(model)
    assert (found.name, found.config) == (name, model.config)
    assert found.vocabulary.words == model.vocabulary.words
    for (key, mine), (other, theirs) in zip(model.state_dict().items(), found.state_dict().items(), strict=True):
        assert key == other
        assert torch.equal(mine, theirs), key
    assert torch.equal(found(features, RAGGED, words), model(features, RAGGED, words))


@every_model
def test_what_it_took_from_the_captions_is_kept(name: str, tmp_path: Path) -> None:
    """Lists have the same entries in the same order, label captions alike, and stay whatever captions come later."""
    model, features, words = captioner(name).float(), {m: x.float() for m, x in videos().items()}, captions()
    found = written(model, tmp_path / "model.safetensors")
    found.prepare(OTHERS)
    expected, again = (lists(each, features, words) for each in (model, found))
    assert {title: list(entries) for title, entries in again.items()} == {
        title: list(entries) for title, entries in expected.items()
    }
    torch.testing.assert_close(again, expected, rtol=0, atol=0)
    for references in REFERENCES:
        torch.testing.assert_close(found.targets(references), model.targets(references), rtol=0, atol=0)


@pytest.mark.parametrize("name", LISTED)
def test_a_loaded_model_has_the_list_of_its_captions(name: str, tmp_path: Path) -> None:
    found = written(captioner(name).float(), tmp_path / "model.safetensors")
    listed = lists(found, {m: x.float() for m, x in videos().items()}, captions())
    title, entries = LISTED[name]
    assert list(listed[title]) == entries


def test_every_captioner_with_a_list_is_among_them() -> None:
    listing = {name for name in names() if captioner(name).targets(REFERENCES[0])}
    assert listing == {*LISTED, TOPICS}


def test_a_loaded_model_has_the_topics_of_its_captions(tmp_path: Path) -> None:
    found = written(captioner(TOPICS).float(), tmp_path / "model.safetensors")
    named = lists(found, {m: x.float() for m, x in videos().items()}, captions())["topics"]
    assert len(named) == 3
    said = {word for topic in named for word in topic.partition(" #")[0].split(", ")}
    assert said <= {"man", "sings", "red", "dog", "runs", "loudly"}


def lists(model: CaptionModel, features: Features, words: Tensor) -> dict[str, dict[str, Tensor]]:
    """Title → entry → how probable it is in each video."""
    looked = model.look(model.encode(features, RAGGED), words)
    return {title: dict(entries) for title, entries in looked.found.items()} if looked else {}
