"""From a video file to a sentence, with a model trained on real small files."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hoca
from hoca.captioning import VideoCaptioner
from hoca.checkpoint import Checkpoint, Checkpoints, read_checkpoint, write_checkpoint
from hoca.data import FolderDataset, binding
from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.generation import Search
from hoca.media import DecodeLimits
from hoca.training import train
from hoca.training.report import evaluate

from .categories import CATEGORIES, train_with_categories
from .conftest import Command
from .training.tiny import tiny, write_captions

OPTIONS = binding.BindingOptions(
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
def captioner(run: Path) -> VideoCaptioner:
    return hoca.load(run)


@pytest.fixture(scope="module")
def run_with_categories(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_with_categories(data, tmp_path_factory.mktemp("categories"))


@pytest.fixture(scope="module")
def with_categories(run_with_categories: Path) -> VideoCaptioner:
    return hoca.load(run_with_categories)


def clips(data: Path, *, silent: bool) -> list[Path]:
    dataset = FolderDataset(data)
    chosen = [v.id for v in dataset.videos("test") if ("audio" not in dataset.lengths(v.id)) == silent]
    assert chosen
    return [data / "videos" / f"{id}.mp4" for id in chosen]


def test_a_caption_says_how_it_came_about(captioner: VideoCaptioner, data: Path) -> None:
    caption = captioner.caption(clips(data, silent=False)[0])
    assert caption.text == " ".join(caption.words)
    assert len(caption.words) >= 1
    assert caption.absent == {}
    assert set(caption.seconds) == {"backbones", "decoding", "features", "words"}
    scores = [caption.logprob, *(logprob for _, logprob in caption.alternatives)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4
    assert len({caption.text, *(text for text, _ in caption.alternatives)}) == 4
    steps = {"image": 20, "motion": 20, "audio": 16}
    words = len(caption.words)
    assert caption.explanation.attention.keys() == caption.explanation.shares.keys() == steps.keys()
    for name, count in steps.items():
        groups = caption.explanation.groups[name]
        assert len(groups) == 4  # alone, with either other, with both
        for weights in (caption.explanation.attention[name], *groups.values()):
            assert weights.shape == (words, count)
            torch.testing.assert_close(weights.sum(1), torch.ones(words))
    torch.testing.assert_close(sum(caption.explanation.shares.values()), torch.ones(words))


def test_every_word_has_the_attention_that_predicted_it(captioner: VideoCaptioner, data: Path) -> None:
    """Row by row: what the model looks at after <bos> and the words before this one."""
    clip = clips(data, silent=False)[0]
    caption = captioner.caption(clip)
    before = [captioner.model.vocabulary.bos]
    with torch.no_grad():
        memory = captioner.model.encode(*FolderDataset(data).padded([clip.stem]))
        for row, word in enumerate(caption.words):
            looked = captioner.model.look(memory, torch.tensor([[before]]))  # [1, 1, words, ...]
            for name, weights in looked.attention.items():
                torch.testing.assert_close(caption.explanation.attention[name][row], weights[0, 0, -1])
                torch.testing.assert_close(caption.explanation.shares[name][row], looked.shares[name][0, 0, -1])
                for group, of_group in looked.groups[name].items():
                    torch.testing.assert_close(caption.explanation.groups[name][group][row], of_group[0, 0, -1])
            before.append(captioner.model.vocabulary[word])
    image = caption.explanation.attention["image"]
    assert not torch.allclose(image[1:], image[:-1], rtol=1e-3)  # a row would not pass for its neighbour


def test_the_model_sees_of_a_file_what_a_store_would_hold(
    captioner: VideoCaptioner, data: Path, tmp_path: Path
) -> None:
    clip = clips(data, silent=False)[0]
    made = captioner.extractor.extract(clip)
    store = FeatureStore(tmp_path)
    store.write("clip", made.features, specification=captioner.specification)
    given: list[dict[str, torch.Tensor]] = []
    hook = captioner.model.encoder.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].features))
    try:
        captioner.caption(clip)
    finally:
        hook.remove()
    assert given[0].keys() == made.features.keys()
    for name, values in store["clip"].items():
        np.testing.assert_array_equal(given[0][name][0].numpy(), values.astype(np.float32))
        assert not np.array_equal(values.astype(np.float32), made.features[name])  # the store does round


def test_silence_is_named_and_nothing_is_listened_to(captioner: VideoCaptioner, data: Path) -> None:
    caption = captioner.caption(clips(data, silent=True)[0])
    assert list(caption.absent) == ["audio"]
    assert list(caption.explanation.shares) == ["image", "motion"]
    assert caption.text


def test_a_file_gets_the_sentence_that_its_stored_features_get(
    captioner: VideoCaptioner, run: Path, data: Path
) -> None:
    evaluate(run, "test", metrics=("BLEU-1",))
    stored = {line["image_id"]: line["caption"] for line in json.loads((run / "captions-test.json").read_text())}
    assert {id: captioner.caption(data / "videos" / f"{id}.mp4").text for id in stored} == stored


def test_the_logprob_is_that_of_teacher_forcing(captioner: VideoCaptioner, data: Path) -> None:
    video = FolderDataset(data).videos("test")[0]
    caption = captioner.caption(data / "videos" / f"{video.id}.mp4", Search(beam=1))
    features, lengths = FolderDataset(data).padded([video.id])
    words = torch.tensor([[captioner.model.vocabulary.encode(caption.words)]])
    with torch.no_grad():
        logp = torch.log_softmax(captioner.model(features, lengths, words[:, :, :-1]), -1)
    assert float(logp.gather(-1, words[:, :, 1:, None]).sum()) == pytest.approx(caption.logprob, abs=1e-4)


def test_a_checkpoint_alone_is_enough(run: Path, data: Path, captioner: VideoCaptioner, tmp_path: Path) -> None:
    copy = tmp_path / "model.safetensors"
    shutil.copy(Checkpoints(run).best, copy)
    clip = clips(data, silent=False)[0]
    assert hoca.load(copy).caption(str(clip)).text == captioner.caption(clip).text


def test_a_checkpoint_to_go_on_from_captions_too(run: Path, data: Path) -> None:
    assert hoca.load(Checkpoints(run).newest()[0]).caption(clips(data, silent=False)[0]).words


def test_a_model_of_foreign_features_takes_no_files(tiny_data: Path, tmp_path: Path, data: Path) -> None:
    foreign = train(tiny(tiny_data, tmp_path / "run", epochs=1))
    with pytest.raises(UserError, match=r"cannot make .backbone test"):
        hoca.load(foreign).caption(clips(data, silent=False)[0])


def test_mixed_up_checkpoints_are_told(run: Path, tmp_path: Path) -> None:
    whole = read_checkpoint(Checkpoints(run).best)
    fewer = {**whole.facts, "vocabulary": whole.facts["vocabulary"][:-1]}
    newer = {**whole.facts, "config": {**whole.facts["config"], "hidenn": 3}}
    wider = {**whole.facts, "search": {**whole.facts["search"], "baem": 3}}
    unknown = {**whole.facts, "model": "l-hoca-ubtt"}
    for facts, message in (
        (fewer, "do not fit its own configuration and vocabulary"),
        (newer, "mixed.safetensors: the model's configuration has the unknown key 'hidenn'"),
        (wider, "mixed.safetensors: .* there is no key 'baem': did you mean 'beam'"),
        (unknown, "mixed.safetensors: there is no model 'l-hoca-ubtt': did you mean 'l-hoca-ubt'"),
        ({}, "does not tell its model"),
    ):
        write_checkpoint(tmp_path / "mixed.safetensors", Checkpoint(whole.tensors, facts))
        with pytest.raises(UserError, match=message):
            hoca.load(tmp_path / "mixed.safetensors")


def test_a_category_changes_what_is_said(with_categories: VideoCaptioner, data: Path) -> None:
    clip = clips(data, silent=False)[0]
    for category in CATEGORIES:
        assert category in with_categories.caption(clip, category=category).text
    assert with_categories.caption(clip).text  # one that is not known


def test_another_datasets_categories_are_read_by_their_names(run_with_categories: Path, tmp_path: Path) -> None:
    """There `sport` has another number, and there is a category that the model has never heard of."""
    (tmp_path / "features").mkdir()
    lines = []
    for id, category in (("a", "zoo"), ("b", "sport"), ("c", "sport")):
        lines.append({"id": id, "split": "test", "captions": [f"{category} again"], "category": category})
        source = run_with_categories.parent / "features" / "sport-0.safetensors"
        shutil.copy(source, tmp_path / "features" / f"{id}.safetensors")
    write_captions(tmp_path, lines)
    evaluate(run_with_categories, "test", data=str(tmp_path), metrics=("BLEU-1",))
    said = json.loads((run_with_categories / "captions-test.json").read_text())
    assert {row["image_id"]: row["caption"] for row in said}["b"] == "sport again"


def test_an_unknown_category_is_told_before_the_file_is_read(with_categories: VideoCaptioner, tmp_path: Path) -> None:
    nosuch = tmp_path / "nosuch.mp4"
    with pytest.raises(UserError, match=r"category='spport' is unknown to this model: did you mean 'sport'\?"):
        with_categories.caption(nosuch, category="spport")
    with pytest.raises(UserError, match=r"category='music' is unknown to this model: known: news, sport, tv shows$"):
        with_categories.caption(nosuch, category="music")


def test_a_model_without_categories_takes_none(captioner: VideoCaptioner, data: Path) -> None:
    with pytest.raises(UserError, match="category='news': this model was trained without categories, leave it out"):
        captioner.caption(clips(data, silent=False)[0], category="news")


def test_limits_hold_from_when_they_are_set(run: Path, data: Path) -> None:
    captioner, clip = hoca.load(run), clips(data, silent=False)[0]
    text = captioner.caption(clip).text
    captioner.limits = DecodeLimits(bytes=100)
    with pytest.raises(UserError, match="more than the limit of 100"):
        captioner.caption(clip)
    assert captioner.caption(clip, limits=DecodeLimits()).text == text  # those of one file come first
    captioner.limits = None
    assert captioner.caption(clip).text == text
    captioner.close()


def test_words_of_a_foreign_model_command_no_terminal(run: Path, data: Path, tmp_path: Path, hoca: Command) -> None:
    found = read_checkpoint(Checkpoints(run).best)
    found.facts["vocabulary"] = [f"{word}\x1b[2J\x9b2J" for word in found.facts["vocabulary"]]
    write_checkpoint(tmp_path / "foreign.safetensors", found)
    for more in ((), ("--json",)):
        result = hoca("caption", clips(data, silent=False)[0], "--model", tmp_path / "foreign.safetensors", *more)
        assert result.code == 0
        assert result.out.strip().isprintable()
        assert "x1b" in result.out if not more else "[2J" in json.loads(result.out)["text"]


def test_a_caption_is_short_to_look_at_and_travels_without_its_model(captioner: VideoCaptioner, data: Path) -> None:
    caption = captioner.caption(clips(data, silent=False)[0])
    assert repr(caption) == f"Caption({caption.text!r})"
    assert repr(replace(caption, confidence=0.25)) == f"Caption({caption.text!r}, confidence=0.25)"
    assert asdict(caption)["text"] == caption.text
    again = pickle.loads(pickle.dumps(caption))
    assert (again.text, again.made_by, again._repr_html_()) == (caption.text, None, None)
    gone = replace(caption, video="nowhere.mp4")
    assert gone._repr_html_() is None  # a notebook then shows the sentence


def test_a_captioner_is_closed_by_with_and_saved_to_a_file(run: Path, data: Path, tmp_path: Path) -> None:
    clip = clips(data, silent=False)[0]
    with hoca.load(run) as captioner:
        text = captioner.caption(clip).text
        (worker,) = captioner.extractor.decoders._running
    assert worker.process.poll() is not None
    captioner.save(tmp_path / "mine.safetensors")
    with hoca.load(tmp_path / "mine.safetensors") as again:
        assert again.caption(clip).text == text
        assert repr(again) == "VideoCaptioner(l-hoca-ubt, image, motion, audio, cpu)"


def test_many_files_get_the_sentences_that_they_get_one_by_one(captioner: VideoCaptioner, data: Path) -> None:
    """Clips with and without sound, more than a group, so that batches of each kind are searched together."""
    files = sorted((data / "videos").glob("*.mp4"))
    found = list(captioner.captions(files, batch_size=4))
    for file, many in zip(files, found, strict=True):
        alone = captioner.caption(file)
        assert isinstance(many, hoca.Caption)
        assert (many.text, many.absent, many.confidence) == (alone.text, alone.absent, alone.confidence)
        assert many.logprob == pytest.approx(alone.logprob, abs=1e-4)
        assert [text for text, _ in many.alternatives] == [text for text, _ in alone.alternatives]
        assert many.explanation.attention.keys() == alone.explanation.attention.keys()
        for name, weights in many.explanation.attention.items():
            torch.testing.assert_close(weights, alone.explanation.attention[name], rtol=1e-4, atol=1e-5)
        assert set(many.seconds) == {"decoding", "features", "words"}
    assert len({one.text for one in found if isinstance(one, hoca.Caption)}) > 1  # an answer would not pass for another


def test_a_file_that_cannot_be_captioned_is_an_error_in_its_place(
    captioner: VideoCaptioner, data: Path, tmp_path: Path
) -> None:
    clip = clips(data, silent=False)[0]
    (tmp_path / "broken.mp4").write_bytes(b"no video at all")
    missing = UserError("nowhere.mp4 is not there")
    found = list(captioner.captions([clip, tmp_path / "broken.mp4", missing, clip], batch_size=2))
    assert [isinstance(one, UserError) for one in found] == [False, True, True, False]
    assert "broken.mp4" in str(found[1])
    assert found[2] is missing
    assert list(captioner.captions([])) == []


def test_captions_come_while_later_files_are_not_known_yet(captioner: VideoCaptioner, data: Path) -> None:
    """A folder of any length takes bounded memory: files are asked for as sentences are taken."""
    clip, asked = clips(data, silent=False)[0], 0

    def files() -> object:
        nonlocal asked
        for asked in range(1, 101):  # noqa: B007
            yield clip

    sentences = captioner.captions(files(), batch_size=2)
    assert next(sentences).text
    assert asked < 20
    sentences.close()
    assert captioner.caption(clip).text  # stopped in the middle, all is as before
