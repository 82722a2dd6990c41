from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import hoca
from hoca.checkpoint import Checkpoint, Checkpoints, read_checkpoint, write_checkpoint
from hoca.data import FolderDataset
from hoca.errors import UserError
from hoca.models.parts.detector import Detector
from hoca.training import train
from hoca.training.build import DETECTOR_EPOCHS
from hoca.training.detector import fit

from .tiny import COLOURS, tiny, write_captions, write_dataset


@pytest.fixture(scope="module")
def detecting(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained for an epoch and has a detector that was fitted for many."""
    folder = tmp_path_factory.mktemp("detector")
    found = read_checkpoint(Checkpoints(train(tiny(tiny_data, folder / "run", epochs=1))).best)
    model = hoca.load(folder / "run").model
    config = replace(model.config, word_detector=("image",))
    detector = fit(config, model.vocabulary, [(FolderDataset(tiny_data), 100)])
    weights = found.tensors | {f"model.detector.{key}": value for key, value in detector.state_dict().items()}
    search = found.facts["search"] | {"beam": 5, "detector_weight": 1.0}
    write_checkpoint(
        folder / "model.safetensors", Checkpoint(weights, found.facts | {"config": config.to_json(), "search": search})
    )
    return folder / "model.safetensors"


def test_the_colour_that_a_video_shows_has_the_most_evidence(detecting: Path, tiny_data: Path) -> None:
    model, dataset = hoca.load(detecting).model, FolderDataset(tiny_data)
    for video in dataset.videos("test"):
        evidence = model.encode(*dataset.padded([video.id])).evidence
        assert evidence is not None
        seen = max(COLOURS[1:], key=lambda colour: float(evidence[0, model.vocabulary[colour]]))
        if video.category in COLOURS[1:]:  # red is said of every video
            assert seen == video.category


def test_what_is_no_word_has_no_evidence(detecting: Path, tiny_data: Path) -> None:
    model, dataset = hoca.load(detecting).model, FolderDataset(tiny_data)
    evidence = model.encode(*dataset.padded([dataset.videos("test")[0].id])).evidence
    assert evidence is not None
    assert evidence[0, :4].tolist() == [0.0] * 4


def test_it_is_the_same_every_time(tiny_data: Path, detecting: Path) -> None:
    model, dataset = hoca.load(detecting).model, FolderDataset(tiny_data)
    one, two = (fit(model.config, model.vocabulary, [(dataset, 2)]) for _ in range(2))
    for name, value in one.state_dict().items():
        torch.testing.assert_close(two.state_dict()[name], value, rtol=0, atol=0)


def test_a_word_said_twice_in_a_caption_counts_once(tiny_data: Path, detecting: Path, tmp_path: Path) -> None:
    model, said_once = hoca.load(detecting).model, FolderDataset(tiny_data)
    shutil.copytree(tiny_data, tmp_path / "data")
    lines = [
        {"id": video.id, "split": video.split, "captions": [f"{caption} {caption}" for caption in video.captions]}
        for video in said_once.corpus.videos
    ]
    write_captions(tmp_path / "data", lines)
    said_twice = FolderDataset(tmp_path / "data")
    one, two = (fit(model.config, model.vocabulary, [(dataset, 2)]) for dataset in (said_once, said_twice))
    for name, value in one.state_dict().items():
        torch.testing.assert_close(two.state_dict()[name], value, rtol=0, atol=0)


def test_the_search_listens_to_it(detecting: Path, tiny_data: Path) -> None:
    model, dataset = hoca.load(detecting).model, FolderDataset(tiny_data)
    memory = model.encode(*dataset.padded([video.id for video in dataset.videos("test")]))
    search = hoca.load(detecting).search
    found, plain = (use(model, memory) for use in (search, replace(search, detector_weight=0.0)))
    assert sorted(map(sorted, found.texts(model.vocabulary))) == sorted(map(sorted, plain.texts(model.vocabulary)))
    assert bool((found.score[:, :-1] >= found.score[:, 1:]).all())
    assert not torch.equal(found.words, plain.words)


def test_training_begins_from_it_and_new_words_have_no_evidence(detecting: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    lines = [
        {"id": video.id, "split": video.split, "captions": ["a zebra"]} for video in FolderDataset(data).corpus.videos
    ]
    write_captions(data, lines)
    model = hoca.load(train(tiny(data, tmp_path / "run", init_from=str(detecting), epochs=1))).model
    before = hoca.load(detecting).model.detector
    assert isinstance(model.detector, Detector)
    assert isinstance(before, Detector)
    torch.testing.assert_close(model.detector.inner, before.inner)
    torch.testing.assert_close(model.detector.outer[: len(before.outer)], before.outer)
    assert model.vocabulary.words[-1] == "zebra"
    assert not model.detector.outer[-1].any()
    assert not model.detector.outer_bias[-1].any()


def test_a_recipe_asks_for_one(tiny_data: Path, tmp_path: Path) -> None:
    asked = {"word_detector": ["image"], "detector_weight": 0.5, "epochs": 1, "ema_decay": 0.9}
    run = train(tiny(tiny_data, tmp_path / "run", **asked))
    captioner = hoca.load(run)
    model = captioner.model
    assert isinstance(model.detector, Detector)
    assert model.config.word_detector == ("image",)
    assert captioner.search.detector_weight == 0.5
    fitted = fit(model.config, model.vocabulary, [(FolderDataset(tiny_data), DETECTOR_EPOCHS)])
    torch.testing.assert_close(model.detector.outer, fitted.outer)  # neither trained nor averaged
    again = hoca.load(train(tiny(tiny_data, tmp_path / "run", **asked | {"epochs": 2}), resume=True)).model
    assert isinstance(again.detector, Detector)
    torch.testing.assert_close(again.detector.outer, fitted.outer, rtol=0, atol=0)


def test_a_recipe_replaces_that_of_the_model_it_starts_from(detecting: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    run = train(tiny(data, tmp_path / "run", init_from=str(detecting), epochs=1, word_detector=["image"]))
    model = hoca.load(run).model
    before = hoca.load(detecting).model.detector
    assert isinstance(model.detector, Detector)
    assert isinstance(before, Detector)
    assert model.detector.inner.shape == before.inner.shape
    assert not torch.equal(model.detector.inner, before.inner)


@pytest.mark.parametrize(
    ("modalities", "said"),
    [
        (["smell"], "word_detector names 'smell', of which .* has no features"),
        (["image"] * 2, "word_detector names a modality twice"),
    ],
)
def test_a_modality_to_detect_words_in_must_be_there_once(
    tiny_data: Path, tmp_path: Path, modalities: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        train(tiny(tiny_data, tmp_path / "run", word_detector=modalities))


def test_a_weight_without_a_detector_is_refused(tiny_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"detector_weight=0\.5 in the recipe: the model detects no words"):
        train(tiny(tiny_data, tmp_path / "run", detector_weight=0.5))
