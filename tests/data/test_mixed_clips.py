"""Mixed clips: only the sound says which of the two clips is told of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hoca.data import FolderDataset, mixed_clips, msrvtt, read_corpus
from hoca.data.mixed_clips import MixedOptions, other_of, other_sounds, prepare
from hoca.errors import UserError

from ..conftest import Command
from .miniature import SILENT, counted, write_clips


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("miniature") / "data")


@pytest.fixture
def source(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    counted(monkeypatch)
    return files


@pytest.fixture
def mixed(source: Path, tmp_path: Path) -> FolderDataset:
    return FolderDataset(prepare(source, tmp_path / "mixed", MixedOptions(fold=1, folds=3)))


def test_whoever_does_not_listen_is_right_in_half_of_the_cases(mixed: FolderDataset) -> None:
    for split in ("train", "validation", "test"):
        seen: dict[tuple[str, str], Counter[str]] = {}
        for video in mixed.videos(split):
            shown = video.attributes["first"], video.attributes["second"]
            seen.setdefault(shown, Counter())[video.attributes["heard"]] += 1
        assert seen, split
        for (first, second), heard in seen.items():
            assert heard == {first: 1, second: 1}
            assert (second, first) in seen, "every pair comes in both orders"


def test_sight_is_of_both_clips_and_sound_and_captions_of_the_one_heard(source: Path, mixed: FolderDataset) -> None:
    official, clips = msrvtt.read(source), {id: clip for id, clip, _ in msrvtt.clip_features(source)}
    for video in mixed.videos("test"):
        first, second, heard = (video.attributes[name] for name in ("first", "second", "heard"))
        found = mixed.features(video.id)
        for name in ("image", "motion"):
            expected = np.concatenate([clips[first][name][1::2], clips[second][name][1::2]])
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(found["audio"], clips[heard]["audio"], rtol=1e-3, atol=1e-6)
        assert video.captions == official[heard].captions
        assert {other_of(video), heard} == {first, second}


def test_no_source_is_on_two_sides_nor_twice_in_a_pair(source: Path, mixed: FolderDataset) -> None:
    sides = {
        split: {url for video in mixed.videos(split) for url in video.attributes["sources"]}
        for split in ("train", "validation", "test")
    }
    assert all(not sides[a] & sides[b] for a in sides for b in sides if a != b)
    assert all(len(set(video.attributes["sources"])) == 2 for video in mixed.corpus.videos)
    tested = [
        {
            video.attributes["heard"]
            for video in mixed_clips.mix(source, _heard(source), MixedOptions(fold=fold)).split("test")
        }
        for fold in range(3)
    ]
    assert sum(map(len, tested)) == len(set.union(*tested)) == 36 - len(SILENT), "every clip is tested once"


def _heard(source: Path) -> list[str]:
    return [id for id, clip, _ in msrvtt.clip_features(source) if "audio" in clip]


def test_about_half_of_the_pairs_are_of_one_category(mixed: FolderDataset) -> None:
    within = np.mean([video.attributes["within"] for video in mixed.videos("train")])
    assert 0.4 < within < 0.6


def test_another_sound_is_of_neither_clip(mixed: FolderDataset) -> None:
    videos = mixed.videos("test")
    donors = other_sounds(videos)
    assert set(donors) == {video.id for video in videos}
    for video in videos:
        heard = mixed.corpus[donors[video.id]].attributes["heard"]
        assert heard not in (video.attributes["first"], video.attributes["second"])
    assert donors == other_sounds(videos)
    with pytest.raises(UserError, match="no other sound"):
        other_sounds(videos[:2])


def test_the_same_options_give_the_same_and_others_replace_it(source: Path, tmp_path: Path, hoca: Command) -> None:
    command = ["data", "prepare", "mixed-clips", "--source", source, "--out", tmp_path / "out"]
    assert hoca(*command, "fold=0").code == 0
    first = read_corpus(tmp_path / "out" / "captions.jsonl")
    assert hoca(*command, "fold=1", "steps=5").code == 0
    dataset = FolderDataset(tmp_path / "out")
    assert dataset.steps["image"] == 10
    assert hoca(*command, "fold=0").code == 0
    assert read_corpus(tmp_path / "out" / "captions.jsonl") == first
    assert "fold=3 must be below 3" in hoca(*command, "fold=3").complaint
