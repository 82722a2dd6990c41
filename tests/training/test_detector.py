from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import hoca
from hoca.data import FolderDataset
from hoca.errors import UserError
from hoca.models.detector import Detector
from hoca.training import Checkpoint, read_checkpoint, train, write_checkpoint
from hoca.training.build import DETECTOR_EPOCHS
from hoca.training.checkpoint import Checkpoints
from hoca.training.detector import fit

from .tiny import COLOURS, tiny, write_captions, write_dataset


@pytest.fixture(scope="module")
def detecting(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained for an epoch and has a detector that was fitted for many."""
    folder = tmp_path_factory.mktemp("detector")
    found = read_checkpoint(Checkpoints(train(tiny(tiny_data, folder / "run", epochs=1))).best)
    model = hoca.load(folder / "run")
    config = replace(model.config, detects=("image",))
    detector = fit(config, model.vocabulary, [(FolderDataset(tiny_data), 100)])
    weights = found.tensors | {f"model.detector.{key}": value for key, value in detector.state_dict().items()}
    recipe = found.facts["recipe"] | {"beam": 5, "evidence": 1.0}
    write_checkpoint(
        folder / "model.safetensors", Checkpoint(weights, found.facts | {"config": config.to_json(), "recipe": recipe})
    )
    return folder / "model.safetensors"


def test_the_colour_that_a_video_shows_has_the_most_evidence(detecting: Path, tiny_data: Path) -> None:
    model, dataset = hoca.load(detecting), FolderDataset(tiny_data)
    for video in dataset.videos("test"):
        evidence = model.encode(*dataset.padded([video.id])).evidence
        assert evidence is not None
        seen = max(COLOURS[1:], key=lambda colour: float(evidence[0, model.vocabulary[colour]]))
        if video.category in COLOURS[1:]:  # red is said of every video
            assert seen == video.category


def test_what_is_no_word_has_no_evidence(detecting: Path, tiny_data: Path) -> None:
    model, dataset = hoca.load(detecting), FolderDataset(tiny_data)
    evidence = model.encode(*dataset.padded([dataset.videos("test")[0].id])).evidence
    assert evidence is not None
    assert evidence[0, :4].tolist() == [0.0] * 4


def test_it_is_the_same_every_time(tiny_data: Path, detecting: Path) -> None:
    model, dataset = hoca.load(detecting), FolderDataset(tiny_data)
    one, two = (fit(model.config, model.vocabulary, [(dataset, 2)]) for _ in range(2))
    for name, value in one.state_dict().items():
        torch.testing.assert_close(two.state_dict()[name], value, rtol=0, atol=0)


def test_a_word_said_twice_in_a_caption_counts_once(tiny_data: Path, detecting: Path, tmp_path: Path) -> None:
    model, said_once = hoca.load(detecting), FolderDataset(tiny_data)
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
    model, dataset = hoca.load(detecting), FolderDataset(tiny_data)
    memory = model.encode(*dataset.padded([video.id for video in dataset.videos("test")]))
    found = model.search(model, memory)
    plain = replace(model.search, evidence=0.0)(model, memory)
    assert sorted(map(sorted, found.texts(model.vocabulary))) == sorted(map(sorted, plain.texts(model.vocabulary)))
    assert bool((found.score[:, :-1] >= found.score[:, 1:]).all())
    assert not torch.equal(found.words, plain.words)


def test_training_goes_on_from_it_and_new_words_have_no_evidence(detecting: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    lines = [
        {"id": video.id, "split": video.split, "captions": ["a zebra"]} for video in FolderDataset(data).corpus.videos
    ]
    write_captions(data, lines)
    model = hoca.load(train(tiny(data, tmp_path / "run", start=str(detecting), epochs=1)))
    before = hoca.load(detecting).detector
    assert isinstance(model.detector, Detector)
    assert isinstance(before, Detector)
    torch.testing.assert_close(model.detector.inner, before.inner)
    torch.testing.assert_close(model.detector.outer[: len(before.outer)], before.outer)
    assert model.vocabulary.words[-1] == "zebra"
    assert not model.detector.outer[-1].any()
    assert not model.detector.outer_bias[-1].any()


def test_a_recipe_asks_for_one(tiny_data: Path, tmp_path: Path) -> None:
    asked = {"detects": ["image"], "evidence": 0.5, "epochs": 1, "average": 0.9}
    run = train(tiny(tiny_data, tmp_path / "run", **asked))
    model = hoca.load(run)
    assert isinstance(model.detector, Detector)
    assert model.config.detects == ("image",)
    assert model.search.evidence == 0.5
    fitted = fit(model.config, model.vocabulary, [(FolderDataset(tiny_data), DETECTOR_EPOCHS)])
    torch.testing.assert_close(model.detector.outer, fitted.outer)  # neither trained nor averaged
    again = hoca.load(train(tiny(tiny_data, tmp_path / "run", **asked | {"epochs": 2}), resume=True))
    assert isinstance(again.detector, Detector)
    torch.testing.assert_close(again.detector.outer, fitted.outer, rtol=0, atol=0)


def test_a_recipe_replaces_that_of_the_model_it_starts_from(detecting: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    model = hoca.load(train(tiny(data, tmp_path / "run", start=str(detecting), epochs=1, detects=["image"])))
    before = hoca.load(detecting).detector
    assert isinstance(model.detector, Detector)
    assert isinstance(before, Detector)
    assert model.detector.inner.shape == before.inner.shape
    assert not torch.equal(model.detector.inner, before.inner)


@pytest.mark.parametrize(
    ("detects", "said"),
    [
        (["smell"], "detects names 'smell', of which .* has no features"),
        (["image"] * 2, "detects names a modality twice"),
    ],
)
def test_a_modality_to_detect_words_in_must_be_there_once(
    tiny_data: Path, tmp_path: Path, detects: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        train(tiny(tiny_data, tmp_path / "run", detects=detects))


def test_evidence_without_a_detector_is_refused(tiny_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"evidence=0\.5 in the recipe: the model detects no words"):
        train(tiny(tiny_data, tmp_path / "run", evidence=0.5))
