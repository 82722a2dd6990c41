"""MSR-VTT in DINOv2 features: nothing that must stay unseen is learned from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hoca.data import SPLITS, Corpus, FolderDataset, Video, msrvtt, msrvtt_dinov2, read_corpus
from hoca.errors import UserError
from hoca.features import FeatureStore, specify

from ..conftest import Command

TRAIN, VALIDATION, TEST = range(36), range(36, 39), range(39, 42)  # the official split of the miniature
FRAMES = (*range(30), 36, 37)  # videos of which there are frames
CLIPS = (1, 4, 7, 30, 31, 32, 33)  # with motion, and sound but for SILENT
SILENT = (7, 32)
SINGLE = "video9"  # has one picture
CLIP_FILES = (1, 30)  # with 20 pictures
DEV = (3, 5, 33)  # 4 is cut from the source of 3 and 5


@pytest.fixture(scope="module")
def miniature_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up data in files as the research data has them: three neighbouring videos have one source."""
    folder = tmp_path_factory.mktemp("miniature")
    for name in ("msrvtt", "images", "dinov2", "splits"):
        (folder / name).mkdir()
    _write_annotations(folder / "msrvtt")
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {"ids": _ids(CLIPS), "audio_length": [0 if n in SILENT else 16 for n in CLIPS]}
    for name, (steps, width) in msrvtt.CLIP_SHAPES.items():
        arrays |= {name: _bytes(random, len(CLIPS), steps, width), f"{name}_scale": random.random(width, np.float32)}
    np.savez(folder / "msrvtt" / "clip-features.npz", **arrays)
    _write_quantised(folder / "dinov2" / "clips.npz", random, len(CLIP_FILES), 20, ids=_ids(CLIP_FILES))
    _write_quantised(folder / "dinov2" / "msrvtt-frames.npz", random, 2 * len(FRAMES))
    rows = [{"id": f"video{n}", "split": "train" if n in TRAIN else "val", "captions": ["x"]} for n in FRAMES]
    _write_lines(folder / "dinov2" / "msrvtt-frames.jsonl.gz", rows)
    (folder / "splits" / "msrvtt-dev.txt").write_text("".join(f"{id}\n" for id in _ids(DEV)))
    return folder


@pytest.fixture
def miniature(miniature_files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made-up data, whose counts stand for the published ones."""
    monkeypatch.setattr(msrvtt, "VIDEOS", {"train": len(TRAIN), "validation": len(VALIDATION), "test": len(TEST)})
    monkeypatch.setattr(msrvtt, "CAPTIONS_EACH", 2)
    return miniature_files


def _write_annotations(folder: Path) -> None:
    (folder / "category.txt").write_text("".join(f"kind {number}\t{number}\n" for number in range(20)))
    for name, splits in (("train_val", {"train": TRAIN, "validate": VALIDATION}), ("test", {"test": TEST})):
        videos = [
            {
                "video_id": f"video{n}",
                "split": split,
                "category": 0,
                "url": f"s{n // 3}",
                "start time": 0,
                "end time": 9,
            }
            for split, numbers in splits.items()
            for n in numbers
        ]
        sentences = [
            {"video_id": row["video_id"], "sen_id": k, "caption": f"a clip of {row['video_id']}"}
            for row in videos
            for k in range(2)
        ]
        (folder / f"{name}_videodatainfo.json").write_text(json.dumps({"videos": videos, "sentences": sentences}))


def _write_quantised(path: Path, random: np.random.Generator, *shape: int, **more: Any) -> None:
    zero, scale = random.normal(size=(2, msrvtt_dinov2.WIDTH)).astype(np.float32)
    np.savez(path, q=_bytes(random, *shape, msrvtt_dinov2.WIDTH), zero=zero, scale=scale, **more)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Two pictures each, but for one video."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for place, row in enumerate(rows):
            end = 2 * place + (1 if row["id"] == SINGLE else 2)
            file.write(json.dumps(row | {"rows": [2 * place, end]}) + "\n")


def _bytes(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(256, size=shape, dtype=np.uint8)


def _ids(numbers: Any) -> list[str]:
    return [f"video{number}" for number in numbers]


def _corpus(folder: Path) -> Corpus:
    return read_corpus(folder / "captions.jsonl")


def _split(folder: Path, split: str) -> list[str]:
    return [video.id for video in _corpus(folder).split(split)]


def _sources(videos: list[Video]) -> set[str]:
    return {video.attributes["url"] for video in videos if "url" in video.attributes}


Prepare = Callable[..., Path]


@pytest.fixture
def prepare(miniature: Path, tmp_path: Path) -> Prepare:
    return lambda **options: msrvtt_dinov2.prepare(miniature, tmp_path / "out", msrvtt_dinov2.DinoOptions(**options))


def test_dev_sources_validate_official_val_tests_and_the_rest_is_learned_from(prepare: Prepare) -> None:
    out = prepare()
    learned = _ids((*range(3), *range(6, 31)))
    assert _split(out, "train") == learned
    assert _split(out, "validation") == ["video3", "video4", "video5"]  # all of a source, though the list names two
    assert _split(out, "test") == ["video36", "video37"]


def test_captions_are_the_official_ones(prepare: Prepare) -> None:
    assert _corpus(prepare())["video1"].captions == ("a clip of video1",) * 2


def test_it_is_a_dataset_of_four_modalities(prepare: Prepare) -> None:
    dataset = FolderDataset(prepare())
    assert dataset.widths == {"image": 768, "change": 768, "motion": 1024, "audio": 1024}
    assert dataset.specification == specify(image="dinov2-small", change=True)


def test_features_are_the_dequantised_values_and_those_of_a_file_win(prepare: Prepare, miniature: Path) -> None:
    dataset = FolderDataset(prepare())
    packed = {path.stem: dict(np.load(path)) for path in miniature.rglob("*.npz")}

    def image(name: str, row: Any) -> np.ndarray:
        return (packed[name]["zero"] + packed[name]["scale"] * packed[name]["q"][row]).astype(np.float16)

    expected = {
        "video1": image("clips", 0),
        "video2": image("msrvtt-frames", slice(4, 6)),
        "video30": image("clips", 1),
        "video37": image("msrvtt-frames", slice(62, 64)),
    }
    for id, values in expected.items():
        stored = dataset.features(id)
        np.testing.assert_array_equal(stored["image"], values)
        np.testing.assert_allclose(stored["change"], np.diff(values.astype(np.float32), axis=0), rtol=0.01, atol=0.6)
    clip, stored = packed["clip-features"], dataset.features("video4")
    assert set(stored) == {"image", "change", "motion", "audio"}
    for name in ("motion", "audio"):
        np.testing.assert_allclose(
            stored[name], clip[f"{name}_scale"] * (clip[name][1] / 255) ** 2, rtol=1e-3, atol=1e-6
        )


def test_a_file_says_what_it_lacks_and_why(prepare: Prepare) -> None:
    store = FeatureStore(prepare() / "features")
    only = "only pictures of it are known"
    assert store.header("video4").absent == {}
    assert store.header("video7").absent == {"audio": "the clip has no sound"}
    assert store.header("video8").absent == {"motion": only, "audio": only}
    single = store.header("video9")
    assert single.absent == {"change": "only one picture of it is known", "motion": only, "audio": only}
    assert list(single.shapes) == ["image"]


def test_clips_without_pictures_are_left_out(prepare: Prepare) -> None:
    assert not {"video31", "video32", "video33"} & {video.id for video in _corpus(prepare()).videos}


def test_folds_part_sources_and_validate_with_each_video_once(prepare: Prepare) -> None:
    validated = []
    for fold in range(3):
        out = prepare(fold=fold, folds=3)
        corpus = _corpus(out)
        sides = [_sources(corpus.split(split)) for split in SPLITS]
        assert sum(map(len, sides)) == len(set.union(*sides))
        assert _split(out, "validation")
        assert _split(out, "test") == ["video36", "video37"]
        assert len(_split(out, "train")) + len(_split(out, "validation")) == 31
        validated += _split(out, "validation")
    assert sorted(validated) == sorted(_ids(range(31)))


def test_the_fold_of_a_source_never_changes() -> None:
    assert [msrvtt_dinov2.fold_of(f"https://example.org/{number}", 5) for number in range(8)] == [
        2,
        3,
        4,
        0,
        4,
        4,
        4,
        0,
    ]


def test_a_final_training_learns_from_the_dev_list_and_validates_with_nothing(prepare: Prepare) -> None:
    out = prepare(with_dev=True)
    assert _split(out, "validation") == []
    assert _split(out, "train") == _ids(range(31))
    assert _split(out, "test") == ["video36", "video37"]


def test_preparing_again_leaves_features_alone(prepare: Prepare) -> None:
    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}

    out = prepare()
    before = written()
    prepare(with_dev=True)
    assert written() == before
    FeatureStore(out / "features").write(
        "video2", {"image": np.zeros((3, 768))}, specification=specify(image="dinov2-small")
    )
    prepare()
    assert FeatureStore(out / "features")["video2"]["image"].shape == (2, 768)


def test_the_command_line(hoca: Command, miniature: Path, tmp_path: Path) -> None:
    command = ("data", "prepare", "msrvtt-dinov2", "--source", miniature, "--out", tmp_path)
    result = hoca(*command, "fold=1", "folds=2")
    assert result.code == 0
    assert "videos to learn from" in result.out + result.err
    for wrong, complaint in (
        ("min_count=2", "there is no key 'min_count'"),
        ("fold=5", "fold=5 must be at least 0 and below 5"),
        ("fold=-1", "fold=-1 must be at least 0"),
        ("folds=1", "folds=1 must be at least 2"),
    ):
        result = hoca(*command, wrong)
        assert result.code == 2
        assert complaint in result.complaint
    assert "leave one of them out" in hoca(*command, "fold=0", "with_dev=true").complaint


def test_a_broken_source_is_named(miniature: Path, tmp_path: Path) -> None:
    def broken(path: str, content: bytes) -> Path:
        folder = tmp_path / path.replace("/", "-")
        for original in miniature.rglob("*.*"):
            copy = folder / original.relative_to(miniature)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content if copy == folder / path else original.read_bytes())
        return folder

    row = {"id": "video1", "split": "train", "rows": [0, 99], "captions": []}
    for path, content, complaint in (
        ("splits/msrvtt-dev.txt", b"video36\n", "video36 is no official-train video"),
        ("dinov2/msrvtt-frames.jsonl.gz", b"text", "does not describe the rows of"),
        ("dinov2/msrvtt-frames.jsonl.gz", gzip.compress(json.dumps(row).encode()), "does not describe the rows of"),
    ):
        with pytest.raises(UserError, match=complaint):
            msrvtt_dinov2.prepare(broken(path, content), tmp_path / "out")
    for id, complaint in (("video40", "video40 is of the official test split"), ("video99", "no MSR-VTT video")):
        line = json.dumps(row | {"id": id, "rows": [0, 1]}).encode()
        with pytest.raises(UserError, match=complaint):
            msrvtt_dinov2.prepare(broken("dinov2/msrvtt-frames.jsonl.gz", gzip.compress(line)), tmp_path / "out")


def test_missing_files_are_named(miniature: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither category\.txt nor"):
        msrvtt_dinov2.prepare(tmp_path, tmp_path / "out")
    (tmp_path / "msrvtt").symlink_to(miniature / "msrvtt")
    with pytest.raises(UserError, match=r"no msrvtt-frames\.npz in"):
        msrvtt_dinov2.prepare(tmp_path, tmp_path / "out")


@pytest.fixture(scope="module")
def prepared(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return msrvtt_dinov2.prepare(shared_data, tmp_path_factory.mktemp("default"))


@pytest.fixture(scope="module")
def official(shared_data: Path) -> Corpus:
    return msrvtt.read(shared_data)


@pytest.mark.slow
class TestResearchData:
    def test_as_many_as_published(self, prepared: Path, shared_data: Path) -> None:
        dev = set((shared_data / "splits" / "msrvtt-dev.txt").read_text().split())
        with gzip.open(shared_data / "dinov2" / "msrvtt-frames.jsonl.gz", "rt", encoding="utf-8") as file:
            frames = {json.loads(line)["id"] for line in file}
        clips = {id for id, _, _ in msrvtt.clip_features(shared_data)}
        assert (len(dev), len(dev & frames), len(dev & clips)) == (726, 641, 166)
        assert set(_split(prepared, "validation")) <= dev
        assert set(_split(prepared, "validation")) >= dev & frames
        assert [len(_split(prepared, split)) for split in SPLITS] == [2550, 664, 244]
        dataset = FolderDataset(prepared)
        assert sum("motion" in dataset.lengths(video.id) for video in dataset.corpus.videos) == 426
        assert sum(dataset.lengths(video.id)["image"] == 20 for video in dataset.corpus.videos) == 150

    def test_no_source_is_on_two_sides(self, prepared: Path, official: Corpus) -> None:
        sides = [{official[id].attributes["url"] for id in _split(prepared, split)} for split in SPLITS]
        assert sum(map(len, sides)) == len(set.union(*sides))

    def test_only_official_train_videos_are_learned_from_or_validated_with(
        self, prepared: Path, official: Corpus
    ) -> None:
        for split, expected in (("train", "train"), ("validation", "train"), ("test", "validation")):
            for video in _corpus(prepared).split(split):
                assert official[video.id].split == expected
                assert video.captions == official[video.id].captions

    def test_features_are_the_dequantised_values(self, prepared: Path, shared_data: Path) -> None:
        store = FeatureStore(prepared / "features")
        for id, file, row in (
            ("video1", "msrvtt-frames", slice(0, 2)),
            ("video4", "msrvtt-frames", slice(2, 10)),
        ):
            with np.load(shared_data / "dinov2" / f"{file}.npz") as packed:
                expected = packed["zero"] + packed["scale"] * packed["q"][row]
            np.testing.assert_array_equal(store[id]["image"], expected.astype(np.float16))
