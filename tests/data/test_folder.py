"""A folder of captions and features is joined, checked and read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from hoca.data import Batches, FolderDataset, Vocabulary
from hoca.errors import UserError
from hoca.features.store import FeatureStore

SPECIFICATION = {"image": {"backbone": "a", "steps": 7}, "audio": {"backbone": "b", "steps": 5}}


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_what_the_folder_holds(folder: Path) -> None:
    dataset = FolderDataset(folder)
    assert dataset.name == folder.name
    assert dataset.widths == {"image": 6, "audio": 3}
    assert dataset.steps == {"image": 7, "audio": 5}
    assert dataset.specification == SPECIFICATION
    assert dataset.categories == ("1", "2")
    assert len(dataset.videos("train")) == 20
    assert len(dataset.videos("validation")) == 4
    assert dataset.lengths("v00") == {"image": 4}
    assert dataset.lengths("v01") == {"image": 5, "audio": 3}


def test_chosen_modalities_in_the_chosen_order(folder: Path) -> None:
    assert list(FolderDataset(folder, modalities=["audio", "image"], on_problem="skip").widths) == ["audio", "image"]
    dataset = FolderDataset(folder, modalities=["image"])
    assert dataset.widths == {"image": 6}
    assert dataset.specification == {"image": SPECIFICATION["image"]}
    assert set(dataset.features("v01")) == {"image"}


def test_an_unknown_modality_names_the_nearest(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no modality 'images' .* did you mean 'image'"):
        FolderDataset(folder, modalities=["images"])
    with pytest.raises(UserError, match="name each one once"):
        FolderDataset(folder, modalities=["image", "image"])


@pytest.mark.parametrize("preload", [None, torch.float16, torch.float32])
def test_a_padded_batch_is_the_videos_one_by_one(folder: Path, preload: torch.dtype | None) -> None:
    dataset = FolderDataset(folder)
    if preload is not None:
        dataset.preload(preload)
    store = FeatureStore(folder / "features")
    for ids in (["v03"], ["v00", "v03", "v06"], [video.id for video in dataset.corpus.videos], ["v01", "v01"]):
        features, lengths = dataset.padded(ids)
        for place, id in enumerate(ids):
            stored = store[id]
            for name, width in dataset.widths.items():
                expected = stored.get(name, np.zeros((0, width), np.float32))
                length = int(lengths[name][place])
                assert features[name].dtype == torch.float32
                assert length == len(expected)
                assert np.array_equal(features[name][place, :length].numpy(), expected)
                assert not features[name][place, length:].any()
            assert all(np.array_equal(values, stored[name]) for name, values in dataset.features(id).items())
        for name in features:
            assert features[name].shape[1] == max(1, int(lengths[name].max()))


def skipping(folder: Path, **options: object) -> tuple[FolderDataset, list[str]]:
    said: list[str] = []
    return FolderDataset(folder, on_problem="skip", report=said.append, **options), said  # type: ignore[arg-type]


def break_width(folder: Path) -> None:
    FeatureStore(folder / "features").write("v02", {"image": np.ones((4, 5))}, specification=SPECIFICATION)


def break_specification(folder: Path) -> None:
    other = SPECIFICATION | {"image": {"backbone": "c", "steps": 7}}
    FeatureStore(folder / "features").write("v02", {"image": np.ones((4, 6))}, specification=other)


def truncate(folder: Path) -> None:
    path = folder / "features" / "v02.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def remove_features(folder: Path) -> None:
    (folder / "features" / "v02.safetensors").unlink()


def empty_features(folder: Path) -> None:
    FeatureStore(folder / "features").write("v02", {}, specification=SPECIFICATION, absent={"image": "broken"})


DAMAGES = [
    (break_width, "feature file of the wrong width", "image features are 5 wide, expected 6"),
    (break_specification, "features made differently", "the other files with"),
    (truncate, "unreadable feature file", "not a readable feature file"),
    (remove_features, "captions without features", "video v02 of .* has no features in"),
    (empty_features, "video without any modality", "has none of image, audio"),
]


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    DAMAGES,
)
def test_damage_stops_or_is_counted(copy: Path, damage: Callable[[Path], None], kind: str, message: str) -> None:
    damage(copy)
    with pytest.raises(UserError, match=f"v02.*{message}|{message}") as stopped:
        FolderDataset(copy)
    assert "\n" not in str(stopped.value)
    dataset, said = skipping(copy)
    assert said == [f"skipped: {stopped.value}", f"{copy}: skipped 1 × {kind}"]
    assert "v02" not in [video.id for video in dataset.corpus.videos]
    assert len(dataset.corpus) == 23


def test_features_without_captions_are_a_problem(copy: Path) -> None:
    shutil.copy(copy / "features" / "v02.safetensors", copy / "features" / "stray.safetensors")
    with pytest.raises(UserError, match=r"stray.safetensors has no captions"):
        FolderDataset(copy)
    dataset, said = skipping(copy)
    assert len(dataset.corpus) == 24
    assert said[-1].endswith("skipped 1 × features without captions")


def test_a_video_without_the_chosen_modality_is_a_problem(folder: Path) -> None:
    with pytest.raises(UserError, match=r"v00.safetensors has none of audio"):
        FolderDataset(folder, modalities=["audio"])
    dataset, said = skipping(folder, modalities=["audio"])
    assert len(dataset.corpus) == 16
    assert said[-1].endswith("skipped 8 × video without any modality")


def test_values_that_are_not_finite_are_a_problem(copy: Path) -> None:
    path = copy / "features" / "v02.safetensors"
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        values = {name: np.full_like(file.get_tensor(name), np.nan) for name in file.keys()}  # noqa: SIM118
    save_file(values, path, metadata=metadata)
    with pytest.raises(UserError, match=r"v02.*NaN"):
        FolderDataset(copy).preload()
    dataset, said = skipping(copy)
    dataset.preload()
    assert len(dataset.corpus) == 23
    assert said[-1].endswith("skipped 1 × unreadable feature file")


def test_no_features_at_all_is_an_error(copy: Path) -> None:
    shutil.rmtree(copy / "features")
    with pytest.raises(UserError, match="no features in"):
        FolderDataset(copy, on_problem="skip")


def test_features_may_lie_elsewhere(copy: Path, tmp_path: Path) -> None:
    (copy / "features").rename(tmp_path / "store")
    assert len(FolderDataset(copy, features=tmp_path / "store").corpus) == 24


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_made_on_the_gpu_are_those_of_the_cpu(folder: Path) -> None:
    ids = [video.id for video in FolderDataset(folder).corpus.videos]
    expected, lengths = FolderDataset(folder).padded(ids)
    dataset = FolderDataset(folder).preload(device="cuda")
    features, there = dataset.padded(ids)
    assert all(features[name].is_cuda and torch.equal(features[name].cpu(), expected[name]) for name in expected)
    assert all(torch.equal(there[name], lengths[name]) for name in lengths)
    vocabulary = Vocabulary.build(dataset.corpus.captions("train"))
    assert next(iter(Batches(dataset, "train", vocabulary))).pin_memory().words.is_pinned()
    with pytest.raises(UserError, match="choose 0 workers"):
        Batches(dataset, "train", vocabulary, workers=1)
