"""The default model's data: nothing that must stay unseen is learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hoca.data import Corpus, default, msrvtt, read_corpus, read_vocabulary
from hoca.errors import UserError
from hoca.features import FeatureStore, specify


@pytest.fixture(scope="module")
def prepared(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return default.prepare(shared_data, tmp_path_factory.mktemp("default"))


@pytest.fixture(scope="module")
def official(shared_data: Path) -> Corpus:
    return msrvtt.read(shared_data)


@pytest.mark.slow
def test_no_official_validation_or_test_video_is_learned_from(prepared: Path, official: Corpus) -> None:
    for name in ("clips", "videos", "all"):
        corpus = read_corpus(prepared / name / "captions.jsonl")
        learned = {video.id for video in corpus.split("train") if video.id.startswith("video")}
        assert {official[id].split for id in learned} == {"train"}
        assert not learned & {video.id for video in (*corpus.split("validation"), *corpus.split("test"))}
    videos = read_corpus(prepared / "videos" / "captions.jsonl")
    assert len(videos.split("validation")) == 244
    assert {official[video.id].split for video in videos.split("validation")} == {"validation"}
    assert all(default.set_aside(video.id, 0) for video in videos.split("test"))


@pytest.mark.slow
def test_features_say_which_backbones_made_them(prepared: Path, shared_data: Path) -> None:
    store = FeatureStore(prepared / "all" / "features")
    photo = "flickr8k-1000268201_693b08cb0e"
    frames = next(video.id for video in read_corpus(prepared / "videos" / "captions.jsonl").split("validation"))
    for id in (frames, photo):
        assert store.header(id).specification == specify("efficientnet-lite2")
        assert set(store[id]) == {"image"}
    packed = np.load(shared_data / "images" / "flickr8k.npz")
    expected = packed["scale"] * (packed["q"][0] / 255.0) ** 2
    np.testing.assert_allclose(store[photo]["image"][0], expected, rtol=2e-3, atol=1e-4)


@pytest.mark.slow
def test_the_vocabulary_has_the_common_words(prepared: Path) -> None:
    words = read_vocabulary(prepared / "vocabulary.json")
    assert 6000 < len(words) < 7000
    assert all(word in words for word in ("guitar", "cooking", "minecraft", "surfboard"))


def test_every_clip_is_set_aside_once() -> None:
    for number in range(50):
        assert sum(default.set_aside(f"video{number}", fold) for fold in range(default.FOLDS)) == 1


def test_a_fold_that_is_not_there() -> None:
    with pytest.raises(UserError, match="fold=8: choose 0 to 7"):
        default.Options(fold=8)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither category\.txt nor"):
        default.prepare(tmp_path, tmp_path / "out")
