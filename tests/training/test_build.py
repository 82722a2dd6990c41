"""What is built from a recipe and its dataset, of which the training split alone is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import hoca
from hoca.data import Batch, FolderDataset, Vocabulary, write_vocabulary
from hoca.distributed import Distributed
from hoca.models import names
from hoca.models.parts.mil import probability
from hoca.training import train
from hoca.training.build import unigrams
from hoca.training.loop import Trainer

from .tiny import tiny, write_captions, write_dataset

ALONE = Distributed(0, 1, torch.device("cpu"))
HACA_SIZES = ("high_hidden", "global_hidden", "local_hidden", "global_context", "local_context")
BEHIND_A_TANH = {"tddf": {}, "haca": dict.fromkeys(HACA_SIZES, 128)}  # what is seen passes one before it feeds a gate


def test_the_vocabulary_has_the_words_of_the_training_captions_alone(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", counts={"train": 4, "validation": 2, "test": 2})
    said = {"train": "a red thing", "validation": "a yellow thing", "test": "a purple thing"}
    lines = [
        {"id": video.id, "split": video.split, "captions": [said[video.split]]}
        for video in FolderDataset(data).corpus.videos
    ]
    write_captions(data, lines)
    of = Trainer(tiny(data, tmp_path / "run"), Distributed(0, 1, torch.device("cpu")), resume=False)
    assert sorted(of.vocabulary.words) == ["a", "red", "thing"]


def test_a_given_vocabulary_is_the_models(tiny_data: Path, tmp_path: Path) -> None:
    write_vocabulary(Vocabulary(["a", "bell", "unheard"]), tmp_path / "vocabulary.json")
    run = train(tiny(tiny_data, tmp_path / "run", vocabulary=str(tmp_path / "vocabulary.json"), epochs=1))
    assert hoca.load(run).model.vocabulary.words == ["a", "bell", "unheard"]


def test_unigrams_are_the_shares_of_the_words_none_of_them_nothing() -> None:
    vocabulary = Vocabulary(["a", "dog", "unheard"])
    found = unigrams(["a dog", "a purple dog", "a"], vocabulary)
    said = {"<pad>": 0, "<bos>": 0, "<eos>": 3, "<unk>": 1, "a": 3, "dog": 2, "unheard": 0}
    torch.testing.assert_close(found, torch.tensor([1.0 + said[word] for word in vocabulary.tokens]) / (9 + 7))


@pytest.mark.parametrize("model", [*names(), "l-hoca-ub tied", "sa-lstm output"])
def test_words_begin_as_often_as_they_are_said(tiny_data: Path, tmp_path: Path, model: str) -> None:
    """Where hidden states say nothing, probabilities are those of the training captions."""
    name, _, kind = model.partition(" ")
    options = {"tied": {"tie_words": True}, "output": {"feed": "output"}, "": {}}[kind]
    of = Trainer(tiny(tiny_data, tmp_path / "run", model=name, unigram_bias=True, **options), ALONE, resume=False)
    found, batch = of.state.model, of.batches[0]
    for module in found.modules():
        for layer, weight in module.named_parameters(recurse=False):
            if layer == "weight" and len(weight) == len(of.vocabulary):
                weight.data.zero_()
    logits = found(batch.features, batch.lengths, batch.words[:, :, :-1])
    expected = unigrams(of.dataset.corpus.captions("train"), of.vocabulary)
    torch.testing.assert_close(logits.softmax(-1), expected.expand_as(logits))


def test_a_trained_bias_stays_where_a_model_begins_from_it_and_new_words_are_rare(
    tiny_data: Path, tmp_path: Path
) -> None:
    run = train(tiny(tiny_data, tmp_path / "first", model="tddf", epochs=1))
    data = write_dataset(tmp_path / "data")
    captions: list[dict[str, Any]] = [
        {"id": video.id, "split": video.split, "captions": ["a zebra"]} for video in FolderDataset(data).corpus.videos
    ]
    write_captions(data, captions)
    of = Trainer(tiny(data, tmp_path / "again", model="tddf", init_from=str(run)), ALONE, resume=False)
    trained = hoca.load(run).model.word_bias
    torch.testing.assert_close(of.state.model.word_bias, torch.cat([trained, trained.min()[None]]))


def words_to_learn(folder: Path) -> Path:
    """Sixteen videos of which each has a word of its own among many that all have, and a large vocabulary."""
    data = write_dataset(folder / "data", {"image": 16}, {"train": 16, "validation": 2})
    corpus = FolderDataset(data).corpus
    lines: list[dict[str, Any]] = [
        {"id": video.id, "split": video.split, "captions": [f"a man w{number} a man w{number + 20}"]}
        for number, video in enumerate(corpus.videos)
    ]
    write_captions(data, lines)
    write_vocabulary(Vocabulary(["a", "man", *(f"w{number}" for number in range(400))]), folder / "words.json")
    return data


def loss_of(of: Trainer, batch: Batch) -> float:
    with torch.no_grad():
        return float(of.step.wrapped(batch)["words"].loss) / batch.caption_count  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", BEHIND_A_TANH)
def test_what_is_seen_soon_tells_videos_apart(tmp_path: Path, model: str) -> None:
    """What all videos share, how often words are said, must not push what is seen to where a tanh is flat."""
    data = words_to_learn(tmp_path)
    sizes = {"hidden": 64, "attention": 16, "embedding": 16, "dropout": 0.0, "batch_size": 16} | BEHIND_A_TANH[model]
    recipe = tiny(data, tmp_path / "run", model=model, vocabulary=str(tmp_path / "words.json"), **sizes)
    of = Trainer(recipe, ALONE, resume=False)
    seen = {m: torch.randn(len(x), 1, x.shape[2]).expand_as(x) for m, x in of.batches[0].features.items()}
    batch = replace(of.batches[0], features=seen)
    for _ in range(40):
        of.step(batch, 0.003)
    others = replace(batch, features={m: x.roll(1, 0) for m, x in seen.items()})
    assert loss_of(of, others) > loss_of(of, batch) + 0.5


@pytest.mark.parametrize("model", ["dense-cap", "lstm-tsa"])
def test_words_are_first_seen_in_videos_as_often_as_they_are_said(tiny_data: Path, tmp_path: Path, model: str) -> None:
    """In videos as long as the training videos are, which is far less than the longest that is possible."""
    of = Trainer(tiny(tiny_data, tmp_path / "run", model=model), ALONE, resume=False)
    found: Any = of.state.model
    for head in found.detectors.heads.values():
        head.weight.data.zero_()
    features, lengths = of.dataset.padded([video.id for video in of.dataset.videos("train")])
    memory, listed = found.encode(features, lengths), (found.lexicon if model == "dense-cap" else found.attributes)
    if model == "dense-cap":
        seen = {"all": probability(memory.missed)}
    else:
        seen = {m: probability(missed)[lengths[m] > 0] for m, missed in memory.missed.items()}
    for each in seen.values():
        mean = each[:, listed.listed].mean(0)
        torch.testing.assert_close(mean, listed.frequency[listed.listed], rtol=0.03, atol=0.0)
