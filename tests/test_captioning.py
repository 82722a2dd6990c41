"""From a video file to a sentence, with a model trained on real small files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import hoca
from hoca.captioning import VideoCaptioner
from hoca.data import FolderDataset, binding
from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.training import Checkpoint, Checkpoints, read_checkpoint, train, write_checkpoint
from hoca.training.evaluation import Search
from hoca.training.report import evaluate

from .training.tiny import tiny

OPTIONS = binding.Options(
    train=10, validation=2, test=4, captions=2, seconds=1.0, fps=8, picture=32, silent=0.5, distractors=0
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binding.prepare(tmp_path_factory.mktemp("clips") / "data", OPTIONS, videos=True)


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = tiny(
        *(data, tmp_path_factory.mktemp("run") / "run"),
        **{"epochs": 15, "hidden": 16, "learning_rate": 0.03, "dropout": 0.1, "beam": 4, "max_length": 15},
    )
    return train(recipe)


@pytest.fixture(scope="module")
def model(run: Path) -> VideoCaptioner:
    return hoca.load(run)


def clips(data: Path, *, silent: bool) -> list[Path]:
    dataset = FolderDataset(data)
    chosen = [v.id for v in dataset.videos("test") if ("audio" not in dataset.lengths(v.id)) == silent]
    assert chosen
    return [data / "videos" / f"{id}.mp4" for id in chosen]


def test_a_caption_says_how_it_came_about(model: VideoCaptioner, data: Path) -> None:
    caption = model.caption(clips(data, silent=False)[0])
    assert caption.text == " ".join(caption.words)
    assert len(caption.words) >= 1
    assert caption.absent == {}
    assert set(caption.seconds) == {"backbones", "features", "words"}
    scores = [caption.logprob, *(logprob for _, logprob in caption.alternatives)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert len({caption.text, *(text for text, _ in caption.alternatives)}) == 4
    steps = {"image": 20, "motion": 20, "audio": 16}
    words = len(caption.words)
    assert caption.attention.merged.keys() == caption.attention.modalities.keys() == steps.keys()
    for name, count in steps.items():
        groups = caption.attention.groups[name]
        assert len(groups) == 4  # alone, with either other, with both
        for weights in (caption.attention.merged[name], *groups.values()):
            assert weights.shape == (words, count)
            torch.testing.assert_close(weights.sum(1), torch.ones(words))
    torch.testing.assert_close(sum(caption.attention.modalities.values()), torch.ones(words))


def test_every_word_has_the_attention_that_predicted_it(model: VideoCaptioner, data: Path) -> None:
    """Row by row: what the model looks at after <bos> and the words before this one."""
    clip = clips(data, silent=False)[0]
    caption = model.caption(clip)
    before = [model.vocabulary.bos]
    with torch.no_grad():
        memory = model.encode(*FolderDataset(data).padded([clip.stem]))
        for row, word in enumerate(caption.words):
            looked = model.look(memory, torch.tensor([[before]]))  # [1, 1, words, ...]
            for name, weights in looked.merged.items():
                torch.testing.assert_close(caption.attention.merged[name][row], weights[0, 0, -1])
                torch.testing.assert_close(caption.attention.modalities[name][row], looked.modalities[name][0, 0, -1])
                for group, of_group in looked.groups[name].items():
                    torch.testing.assert_close(caption.attention.groups[name][group][row], of_group[0, 0, -1])
            before.append(model.vocabulary[word])
    image = caption.attention.merged["image"]
    assert not torch.allclose(image[1:], image[:-1], rtol=1e-3)  # a row would not pass for its neighbour


def test_the_model_sees_of_a_file_what_a_store_would_hold(model: VideoCaptioner, data: Path, tmp_path: Path) -> None:
    clip = clips(data, silent=False)[0]
    made = model.extractor.extract(clip)
    store = FeatureStore(tmp_path)
    store.write("clip", made.features, specification=model.specification)
    given: list[dict[str, torch.Tensor]] = []
    hook = model.encoder.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    try:
        model.caption(clip)
    finally:
        hook.remove()
    assert given[0].keys() == made.features.keys()
    for name, values in store["clip"].items():
        np.testing.assert_array_equal(given[0][name][0].numpy(), values.astype(np.float32))
        assert not np.array_equal(values.astype(np.float32), made.features[name])  # the store does round


def test_silence_is_named_and_nothing_is_listened_to(model: VideoCaptioner, data: Path) -> None:
    caption = model.caption(clips(data, silent=True)[0])
    assert list(caption.absent) == ["audio"]
    assert list(caption.attention.modalities) == ["image", "motion"]
    assert caption.text


def test_a_file_gets_the_sentence_that_its_stored_features_get(model: VideoCaptioner, run: Path, data: Path) -> None:
    evaluate(run, "test", metrics=("BLEU-1",))
    stored = {line["image_id"]: line["caption"] for line in json.loads((run / "captions-test.json").read_text())}
    assert {id: model.caption(data / "videos" / f"{id}.mp4").text for id in stored} == stored


def test_the_logprob_is_that_of_teacher_forcing(model: VideoCaptioner, data: Path) -> None:
    video = FolderDataset(data).videos("test")[0]
    caption = model.caption(data / "videos" / f"{video.id}.mp4", Search(beam=1))
    features, lengths = FolderDataset(data).padded([video.id])
    words = torch.tensor([[model.vocabulary.encode(caption.words)]])
    with torch.no_grad():
        logp = torch.log_softmax(model(features, lengths, words[:, :, :-1]), -1)
    assert float(logp.gather(-1, words[:, :, 1:, None]).sum()) == pytest.approx(caption.logprob, abs=1e-4)


def test_a_checkpoint_alone_is_enough(run: Path, data: Path, model: VideoCaptioner, tmp_path: Path) -> None:
    copy = tmp_path / "model.safetensors"
    shutil.copy(Checkpoints(run).best, copy)
    clip = clips(data, silent=False)[0]
    assert hoca.load(copy).caption(str(clip)).text == model.caption(clip).text


def test_a_checkpoint_to_go_on_from_captions_too(run: Path, data: Path) -> None:
    assert hoca.load(Checkpoints(run).newest()[0]).caption(clips(data, silent=False)[0]).words


def test_a_model_of_foreign_features_takes_no_files(tiny_data: Path, tmp_path: Path, data: Path) -> None:
    foreign = train(tiny(tiny_data, tmp_path / "run", epochs=1))
    with pytest.raises(UserError, match=r"cannot make .backbone test"):
        hoca.load(foreign).caption(clips(data, silent=False)[0])


def test_mixed_up_checkpoints_are_told(run: Path, tmp_path: Path) -> None:
    whole = read_checkpoint(Checkpoints(run).best)
    fewer = {**whole.facts, "vocabulary": whole.facts["vocabulary"][:-1]}
    newer = {**whole.facts, "recipe": {**whole.facts["recipe"], "hidenn": 3}}
    for facts, message in (
        (fewer, "do not fit its own configuration and vocabulary"),
        (newer, "there is no key 'hidenn'"),
        ({}, "does not tell its config"),
    ):
        write_checkpoint(tmp_path / "mixed.safetensors", Checkpoint(whole.tensors, facts))
        with pytest.raises(UserError, match=message):
            hoca.load(tmp_path / "mixed.safetensors")
