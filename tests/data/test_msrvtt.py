"""MSR-VTT as published: counts, splits, categories; and the clips with features in three modalities."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hoca.data import Corpus, FolderDataset, msrvtt, read_corpus
from hoca.errors import UserError
from hoca.features.store import FeatureStore


@pytest.fixture(scope="module")
def source(shared_data: Path) -> Path:
    return shared_data / "msrvtt"


@pytest.fixture(scope="module")
def corpus(source: Path) -> Corpus:
    return msrvtt.read(source)


@pytest.fixture(scope="module")
def clips(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return msrvtt.prepare_clips(source, tmp_path_factory.mktemp("prepared") / "clips")


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Annotations of as many videos and captions as the official ones, in no order."""
    folder = tmp_path_factory.mktemp("made-up")
    (folder / "category.txt").write_text("".join(f"kind {number}\t{number}\n" for number in range(20)))
    splits = ["train"] * 6513 + ["validate"] * 497 + ["test"] * 2990
    for name, numbers in (("train_val", range(7010)), ("test", range(7010, 10_000))):
        videos = [
            {"video_id": f"video{n}", "split": splits[n], "category": n % 20, "url": "", "start time": n, "end time": n}
            for n in reversed(numbers)
        ]
        sentences = [
            {"video_id": f"video{n}", "sen_id": 20 * n + k, "caption": f"a  clip, {k}"}
            for k in reversed(range(20))
            for n in numbers
        ]
        (folder / f"{name}_videodatainfo.json").write_text(json.dumps({"videos": videos, "sentences": sentences}))
    return folder


def test_every_video_is_in_the_split_that_its_annotation_names(made_up: Path) -> None:
    corpus = msrvtt.read(made_up)
    assert [video.id for video in corpus.videos] == [f"video{number}" for number in range(10_000)]
    assert [video.split for video in corpus.videos] == ["train"] * 6513 + ["validation"] * 497 + ["test"] * 2990
    assert corpus["video6513"].category == "kind 13"
    assert corpus["video6513"].captions == tuple(f"a clip, {number}" for number in range(20))


def test_official_split(corpus: Corpus) -> None:
    assert Counter(video.split for video in corpus.videos) == {"train": 6513, "validation": 497, "test": 2990}
    assert {len(video.captions) for video in corpus.videos} == {20}
    assert [video.id for video in corpus.videos] == [f"video{number}" for number in range(10_000)]


def test_categories_have_their_official_names(corpus: Corpus, source: Path) -> None:
    assert corpus.categories[:5] == ("music", "people", "gaming", "sports/actions", "news/events/politics")
    assert len(corpus.categories) == 20
    assert corpus["video0"].category == "vehicles/autos"
    assert corpus.category_number(corpus["video0"]) == 9


def test_captions_alone(source: Path, corpus: Corpus, tmp_path: Path) -> None:
    said: list[str] = []
    out = msrvtt.prepare(source, tmp_path / "msrvtt", report=said.append)
    assert read_corpus(out / "captions.jsonl") == corpus
    assert said == [f"{out}: MSR-VTT, 10000 videos, captions only"]


def test_features_of_a_store(source: Path, tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "store")
    for number in (0, 6513, 7010):
        store.write(f"video{number}", {"image": np.full((3, 4), number)}, specification={"image": {"backbone": "x"}})
    with pytest.raises(UserError, match="no features of video1 in"):
        msrvtt.prepare(source, tmp_path / "stopped", features=store.folder)
    said: list[str] = []
    out = msrvtt.prepare(source, tmp_path / "out", features=store.folder, on_problem="skip", report=said.append)
    assert said[-2:] == [f"{store.folder}: skipped 9997 × video without features", f"{out}: MSR-VTT, 3 videos"]
    dataset = FolderDataset(out)
    assert [video.split for video in dataset.corpus.videos] == ["train", "validation", "test"]
    assert (dataset.features("video7010")["image"] == 7008).all()  # 7010 in float16
    msrvtt.prepare(source, out, features=out / "features", on_problem="skip", report=said.append)
    assert len(FolderDataset(out).corpus) == 3


def test_clips_have_three_modalities(source: Path, corpus: Corpus, clips: Path) -> None:
    dataset = FolderDataset(clips)
    assert dataset.widths == {"image": 1280, "motion": 1024, "audio": 1024}
    assert dataset.steps == {"image": 20, "motion": 20, "audio": 16}
    assert len(dataset.corpus) == 732
    assert dataset.categories == corpus.categories
    with np.load(source / "clip-features.npz", allow_pickle=False) as arrays:
        ids, lengths = [str(id) for id in arrays["ids"]], arrays["audio_length"]
        assert {id for id in ids if "audio" not in dataset.lengths(id)} == {
            id for id, length in zip(ids, lengths, strict=True) if not length
        }
        row = next(place for place, length in enumerate(lengths) if 0 < length < 16)
        stored = {name: arrays[name][row].astype(np.float32) for name in dataset.widths}
        scales = {name: arrays[f"{name}_scale"] for name in dataset.widths}
    features = dataset.features(ids[row])
    assert len(features["audio"]) == lengths[row]
    for name, values in features.items():
        exact = scales[name] * (stored[name][: len(values)] / 255) ** 2
        assert np.allclose(values, exact, rtol=1e-3, atol=1e-6)
    assert dataset.corpus[ids[row]].captions == corpus[ids[row]].captions


def test_clips_have_a_fixed_split_by_their_name(clips: Path) -> None:
    corpus = FolderDataset(clips).corpus
    assert Counter(video.split for video in corpus.videos) == {"train": 555, "validation": 102, "test": 75}
    assert all(video.split == msrvtt.clip_split(video.id) for video in corpus.videos)


def test_the_split_of_a_clip_never_changes() -> None:
    splits = {split: [n for n in range(24) if msrvtt.clip_split(f"video{n}") == split] for split in msrvtt.VIDEOS}
    assert splits["validation"] == [3, 21, 22]
    assert splits["test"] == [7, 11, 18, 19]


def test_other_data_is_told_by_its_counts(source: Path, tmp_path: Path) -> None:
    for name in ("train_val_annotation.zip", "test_videodatainfo.json.zip"):
        with zipfile.ZipFile(source / name) as archive:
            archive.extractall(tmp_path)
    path = tmp_path / "test_videodatainfo.json"
    content = path.read_text()
    annotation = json.loads(content)
    path.write_text(json.dumps(annotation | {"sentences": annotation["sentences"][1:]}))
    with pytest.raises(UserError, match="captions of video7960, split test: found 19, expected 20"):
        msrvtt.read(tmp_path)
    gone = annotation["videos"][0]["video_id"]
    rest = [row for row in annotation["sentences"] if row["video_id"] != gone]
    path.write_text(json.dumps({"videos": annotation["videos"][1:], "sentences": rest}))
    with pytest.raises(UserError, match="MSR-VTT videos, split test: found 2989, expected 2990"):
        msrvtt.read(tmp_path)
    for broken in (content[:-5], "[]", '{"videos": [{}], "sentences": []}'):
        path.write_text(broken)
        with pytest.raises(UserError, match=r"test_videodatainfo.json is not an MSR-VTT annotation"):
            msrvtt.read(tmp_path)
    (tmp_path / "category.txt").write_text("music\t0\n")
    with pytest.raises(UserError, match="found 1 categories, expected 20"):
        msrvtt.read(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither category.txt nor train_val_annotation.zip in"):
        msrvtt.prepare(tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match=r"no clip-features\.npz in"):
        msrvtt.prepare_clips(tmp_path, tmp_path / "out")


def test_folds_of_clips_share_no_source_and_test_every_clip_once(source: Path, tmp_path: Path) -> None:
    tested: Counter[str] = Counter()
    for fold in range(3):
        out = msrvtt.prepare_clips(source, tmp_path / "clips", msrvtt.ClipOptions(fold=fold, folds=3))
        corpus = read_corpus(out / "captions.jsonl")
        splits: dict[str, set[str]] = {}
        for video in corpus.videos:
            splits.setdefault(video.attributes["url"], set()).add(video.split)
        assert all(len(each) == 1 for each in splits.values())
        assert {video.split for video in corpus.videos} == {"train", "validation", "test"}
        tested.update(video.id for video in corpus.split("test"))
    assert len(tested) == 732
    assert set(tested.values()) == {1}
    with pytest.raises(UserError, match="fold=3 must be at least 0 and below 3"):
        msrvtt.ClipOptions(fold=3, folds=3)
