"""The model that comes with the package: small, whole, and ready without a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import hoca
from hoca import features
from hoca.captioning import VideoCaptioner
from hoca.checkpoint import SHIPPED, read_checkpoint
from hoca.data import Corpus, FolderDataset, Video, evaluation_batches, write_corpus
from hoca.distributed import Distributed
from hoca.evaluation import caption_batches
from hoca.generation import Search

from .conftest import Command


@pytest.fixture(scope="module")
def captioner() -> Iterator[VideoCaptioner]:
    loaded = hoca.load()
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips of a made-up world, three seconds together: nothing to recognise, all modalities to go through."""
    from hoca.data import binding

    out = tmp_path_factory.mktemp("shipped") / "data"
    options = binding.Options(train=0, validation=0, test=2, captions=1, seconds=1.5, fps=8, picture=64, silent=0)
    return binding.prepare(out, options, videos=True) / "videos"


def test_it_is_small_and_carries_nothing_of_where_it_was_trained() -> None:
    assert SHIPPED.stat().st_size <= 30_000_000
    facts = read_checkpoint(SHIPPED).facts
    assert set(facts) - {"recipe"} == {"model", "config", "vocabulary", "specification", "search"}
    assert set(facts.get("recipe", {})) <= {"search"}  # format 1 had it there


def test_it_searches_as_it_was_chosen_to(captioner: VideoCaptioner) -> None:
    chosen = Search(beam=8, length_penalty=1.0, max_length=16, no_repeat=2, detector_weight=0.15)
    assert captioner.search == chosen
    assert captioner.model.detector is not None


def test_it_takes_features_that_hoca_extracts(captioner: VideoCaptioner) -> None:
    assert captioner.specification.items() <= features.specify("efficientnet-lite2").items()
    assert list(captioner.model.config.modalities) == ["image", "audio"]


def test_its_name_is_default(captioner: VideoCaptioner) -> None:
    assert hoca.load("default").model.vocabulary == captioner.model.vocabulary


@pytest.mark.slow
def test_it_captions_files_and_the_second_one_quickly(captioner: VideoCaptioner, clips: Path) -> None:
    first, second = (captioner.caption(file) for file in sorted(clips.iterdir()))
    assert len(first.words) >= 3
    assert first.text == " ".join(first.words)
    assert second.seconds["backbones"] < 0.1 * first.seconds["backbones"]


@pytest.mark.slow
def test_the_command_line_takes_a_folder_and_needs_no_model(hoca: Command, clips: Path) -> None:
    result = hoca("caption", clips, "--beam", "1")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(file) for file in sorted(clips.iterdir())]


@pytest.mark.slow
def test_it_names_what_is_in_real_clips(captioner: VideoCaptioner, shared_data: Path, tmp_path: Path) -> None:
    """Sentences of set-aside clips that fit them better than those of their neighbours do."""
    from hoca.data.msrvtt import clip_features, clip_split, read
    from hoca.features import FeatureStore
    from hoca.metrics import evaluate

    official, store, specification = read(shared_data), FeatureStore(tmp_path / "features"), captioner.specification
    for id, values, absent in clip_features(shared_data):
        if clip_split(id) == "test":
            store.write(id, values, specification=specification, absent=absent, wait=False)
    videos = tuple(Video(id, "test", official[id].captions) for id in store.ids())
    write_corpus(Corpus("aside", videos), tmp_path)
    batches = evaluation_batches(
        FolderDataset(tmp_path, modalities=list(captioner.model.config.modalities)), "test", 64
    )
    said = caption_batches(captioner.model, batches, captioner.search, Distributed(0, 1, torch.device("cpu")))
    references = {video.id: list(video.captions) for video in videos}
    shifted = dict(zip(said, [*list(said.values())[1:], said[videos[0].id]], strict=True))
    right, wrong = (evaluate(references, each, metrics=("CIDEr",)).corpus["CIDEr"] for each in (said, shifted))
    assert right > 0.25
    assert right > 3 * wrong
