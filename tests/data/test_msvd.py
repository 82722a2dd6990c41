"""MSVD as published: counts, splits, features."""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hoca.data import Batches, Corpus, FolderDataset, Vocabulary, msvd
from hoca.errors import UserError


@pytest.fixture(scope="module")
def source(shared_data: Path) -> Path:
    return shared_data / "msvd"


@pytest.fixture(scope="module")
def corpus(source: Path) -> Corpus:
    return msvd.read(source)


@pytest.fixture(scope="module")
def prepared(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return msvd.prepare(source, tmp_path_factory.mktemp("prepared") / "msvd")


def test_official_split(corpus: Corpus) -> None:
    assert {split: len(corpus.split(split)) for split in msvd.VIDEOS} == {"train": 1200, "validation": 100, "test": 670}
    captions = {split: sum(1 for _ in corpus.captions(split)) for split in msvd.VIDEOS}
    assert captions == {"train": 48_774, "validation": 4_290, "test": 27_763}
    assert [video.id for video in corpus.split("validation")] == [f"vid{number}" for number in range(1201, 1301)]
    assert sum(map(len, corpus.references("test").values())) == 27_763


def test_clips_say_where_they_come_from(corpus: Corpus) -> None:
    assert sum(set(video.attributes) == {"youtube", "start", "end"} for video in corpus.videos) == 1970


def test_unpacked_files_read_the_same(source: Path, corpus: Corpus, tmp_path: Path) -> None:
    with zipfile.ZipFile(source / "sents_lc_nopunc.zip") as archive:
        archive.extractall(tmp_path / "msvd")
    shutil.copy(source / "youtube_mapping.txt", tmp_path / "msvd")
    assert msvd.read(tmp_path) == corpus


def test_prepared_folder(source: Path, corpus: Corpus, prepared: Path) -> None:
    dataset = FolderDataset(prepared, modalities=["image", "change"])
    assert dataset.corpus.videos == corpus.videos
    assert dataset.widths == {"image": 512, "change": 512}
    assert dataset.steps == {"image": 20, "change": 19}
    with np.load(source / "features.npz", allow_pickle=False) as arrays:
        exact = arrays["zero"] + arrays["scale"] * arrays["q"][1300]
    features = dataset.features("vid1301")
    assert np.allclose(features["image"], exact, rtol=1e-3, atol=1e-5)
    assert np.allclose(features["change"], exact[1:] - exact[:-1], rtol=1e-3, atol=1e-5)


def test_preparing_again_writes_no_feature_anew(source: Path, prepared: Path) -> None:
    times = {path: path.stat().st_mtime_ns for path in (prepared / "features").glob("*.safetensors")}
    assert len(times) == 1970
    said: list[str] = []
    msvd.prepare(source, prepared, report=said.append)
    assert {path: path.stat().st_mtime_ns for path in (prepared / "features").glob("*.safetensors")} == times
    assert len(said) == 1


def test_bucketing_keeps_padding_small_on_real_captions(prepared: Path) -> None:
    dataset = FolderDataset(prepared, modalities=["image"])
    vocabulary = Vocabulary.build(dataset.corpus.captions("train"), minimum=2)
    padding = {
        (captions, bucket): Batches(dataset, "train", vocabulary, captions_per_video=captions, bucket=bucket).padding()
        for captions in (1, 5)
        for bucket in (True, False)
    }
    assert padding[1, True] < 0.05 < 0.4 < padding[1, False]
    assert padding[5, True] < 0.2 < 0.5 < padding[5, False]


def test_other_data_is_told_by_its_counts(source: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(source / "sents_lc_nopunc.zip") as archive:
        archive.extractall(tmp_path)
    path = tmp_path / "sents_val_lc_nopunc.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(UserError, match="MSVD captions, split validation: found 4289, expected 4290"):
        msvd.read(tmp_path)
    path.write_text("".join([*lines[:-1], "no tab\n"]))
    with pytest.raises(UserError, match=r"sents_val_lc_nopunc.txt, line 4290: expected vidN"):
        msvd.read(tmp_path)


def test_missing_or_damaged_files_are_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither sents_train_lc_nopunc.txt nor sents_lc_nopunc.zip in"):
        msvd.prepare(tmp_path, tmp_path / "out")
    (tmp_path / "sents_lc_nopunc.zip").write_bytes(b"PK damaged")
    with pytest.raises(UserError, match="not a readable zip archive"):
        msvd.prepare(tmp_path, tmp_path / "out")
    shutil.copyfile(source / "sents_lc_nopunc.zip", tmp_path / "sents_lc_nopunc.zip")
    with pytest.raises(UserError, match=r"no features\.npz"):
        msvd.prepare(tmp_path, tmp_path / "out")
    np.savez(tmp_path / "features.npz", q=np.zeros((1970, 20, 8), np.uint8), scale=np.ones(8), zero=np.ones(8))
    with pytest.raises(UserError, match=r"q has shape \[1970, 20, 8\], expected \[1970, 20, 512\]"):
        msvd.prepare(tmp_path, tmp_path / "out")
    np.savez(tmp_path / "features.npz", q=np.array([None]))
    with pytest.raises(UserError, match=r"features\.npz"):
        msvd.prepare(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_ids_are_the_official_numbers(corpus: Corpus) -> None:
    assert Counter(video.id for video in corpus.videos) == Counter(f"vid{number}" for number in range(1, 1971))
