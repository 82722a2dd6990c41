"""From runs to the file that is shipped: each command of benchmarks/default_model.py on small models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from hoca.checkpoint import load_model, read_checkpoint
from hoca.data import FolderDataset
from hoca.generation import Search
from hoca.models import CaptionModel
from hoca.training import train

from ..training.tiny import WIDTHS, tiny
from .scripts import start

KEPT = ["image", "audio"]


@pytest.fixture(scope="module")
def runs(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("default-model")
    options = {"tie_words": True, "epochs": 1, "max_length": 7}
    return [train(tiny(tiny_data, folder / f"run-{seed}", **options, seed=seed)) for seed in range(2)]


@pytest.fixture(scope="module")
def averaged(runs: list[Path]) -> Path:
    out = runs[0].parent / "mean.safetensors"
    start("default_model", "mean", out, *runs)
    return out


def logits(model: CaptionModel, data: Path, modalities: list[str]) -> Tensor:
    """Of the words of a caption of every test video, shown these modalities alone."""
    dataset = FolderDataset(data, modalities=modalities)
    ids = [video.id for video in dataset.videos("test")]
    words = torch.tensor([[model.vocabulary.encode("a red thing and a bell")[:-1]]]).expand(len(ids), 1, -1)
    with torch.no_grad():
        return model(*dataset.padded(ids), words)


def test_a_mean_is_that_of_the_weights_and_of_the_first_ones_search(runs: list[Path], averaged: Path) -> None:
    first, second, mean = (load_model(path) for path in (*runs, averaged))
    others = second.model.state_dict()
    for name, value in first.model.state_dict().items():
        torch.testing.assert_close(mean.model.state_dict()[name], (value + others[name]) / 2)
    assert mean.search == first.search


def test_a_model_of_fewer_modalities_says_what_the_whole_one_says_without_the_others(
    runs: list[Path], averaged: Path, tiny_data: Path
) -> None:
    out = averaged.with_name("fewer.safetensors")
    start("default_model", "mean", out, *runs, "--modalities", *KEPT)
    whole, fewer = load_model(averaged), load_model(out)
    assert list(fewer.model.config.modalities) == list(fewer.specification) == KEPT
    assert fewer.model.config.orders == (1, 2)
    expected = logits(whole.model, tiny_data, KEPT)
    torch.testing.assert_close(logits(fewer.model, tiny_data, KEPT), expected)
    assert not torch.allclose(logits(whole.model, tiny_data, list(WIDTHS)), expected, rtol=1e-3)


def test_a_model_with_a_word_detector_is_shipped_with_no_more_than_it_needs(
    averaged: Path, tiny_data: Path, tmp_path: Path
) -> None:
    for part in ("all", "videos"):
        (tmp_path / part).symlink_to(tiny_data)
    detecting, shipped = tmp_path / "detecting.safetensors", tmp_path / "shipped.safetensors"
    start("default_model", "detect", detecting, averaged, "--data", tmp_path)
    start("default_model", "ship", detecting, shipped)
    assert set(read_checkpoint(shipped).facts) == {"model", "config", "vocabulary", "specification", "search"}
    whole, small = load_model(detecting), load_model(shipped)
    for each in (whole, small):
        assert each.search == Search(beam=8, max_length=7, detector_weight=0.15)
        assert each.model.config.word_detector == ("image", "audio")
        assert each.model.detector is not None
        assert float(each.model.detector.outer.abs().sum()) > 0
    assert shipped.stat().st_size < 0.7 * detecting.stat().st_size
    torch.testing.assert_close(
        logits(small.model, tiny_data, KEPT), logits(load_model(averaged).model, tiny_data, KEPT), rtol=0.05, atol=0.05
    )
