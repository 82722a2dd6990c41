"""The models that come with the package: small, whole, and ready without a folder."""

from __future__ import annotations

import re
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import hoca
from hoca import assets, features
from hoca.captioning import VideoCaptioner
from hoca.checkpoint import SHIPPED, read_checkpoint
from hoca.data import Corpus, FolderDataset, evaluation_batches, msrvtt_dinov2, write_corpus
from hoca.distributed import Distributed
from hoca.evaluation import caption_batches
from hoca.generation import Search

from .conftest import ROOT, Command

SIBLING = SHIPPED.with_stem("hoca-u")


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
    options = binding.BindingOptions(
        train=0, validation=0, test=2, captions=1, seconds=1.5, fps=8, picture=64, silent=0
    )
    return binding.prepare(out, options, videos=True) / "videos"


def test_they_are_small_and_carry_nothing_of_where_they_were_trained() -> None:
    assert SHIPPED.stat().st_size + SIBLING.stat().st_size <= 32_000_000
    told = {"model", "config", "vocabulary", "specification", "search"}
    assert set(read_checkpoint(SHIPPED).facts) == told | {"confidence"}
    assert set(read_checkpoint(SIBLING).facts) == told


def test_it_searches_as_it_was_chosen_to(captioner: VideoCaptioner) -> None:
    chosen = Search(beam=8, length_penalty=1.0, max_length=20, no_repeat=2, not_first=("there",), detector_weight=0.3)
    assert captioner.search == chosen
    assert captioner.model.detector is not None


def test_it_takes_features_that_hoca_extracts(captioner: VideoCaptioner) -> None:
    assert captioner.specification == features.specify(motion=None, audio=None, change=True)
    assert list(captioner.model.config.modalities) == ["image", "change"]


def test_its_name_is_default(captioner: VideoCaptioner) -> None:
    assert hoca.load("default").model.vocabulary == captioner.model.vocabulary


def test_its_sibling_is_unary_and_sees_the_same(captioner: VideoCaptioner) -> None:
    sibling = hoca.load("hoca-u")
    assert sibling.model.describe() == "attention of order 1"
    assert sibling.specification == captioner.specification


def test_a_file_without_pictures_is_refused(hoca: Command, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", "not compressed"))
        file.writeframes(bytes(2 * 32000))
    result = hoca("caption", tmp_path / "sound.wav")
    assert result.code == 2
    assert result.complaint.endswith("sound.wav: there is no picture in the file")


@pytest.mark.slow
def test_it_captions_files_and_the_second_one_quickly(captioner: VideoCaptioner, clips: Path) -> None:
    first, second = (captioner.caption(file) for file in sorted(clips.iterdir()))
    assert len(first.words) >= 3
    assert first.text == " ".join(first.words)
    assert first.confidence is not None
    assert 0 < first.confidence < 1
    assert second.seconds["backbones"] < 0.1 * first.seconds["backbones"]


@pytest.mark.slow
def test_the_command_line_takes_a_folder_and_needs_no_model(hoca: Command, clips: Path, shallow_pictures: None) -> None:
    result = hoca("caption", clips, "--beam", "1")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(file) for file in sorted(clips.iterdir())]


@pytest.mark.slow
def test_it_stands_beside_its_sibling(hoca: Command, clips: Path, tmp_path: Path, shallow_pictures: None) -> None:
    clip = sorted(clips.iterdir())[0]
    result = hoca("explain", clip, "--compare", "hoca-u", "--out", tmp_path / "report.html")
    assert result.code == 0
    assert [line.partition(":")[0] for line in result.out.splitlines()] == ["default", "hoca-u"]


@pytest.mark.slow
def test_it_says_of_the_demos_clips_what_the_readme_quotes(captioner: VideoCaptioner) -> None:
    here = {row.asset.name: row.file for row in assets.listing() if row.file}
    quoted = dict(
        re.findall(r"^demo/(\w+)\.mp4: (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert list(quoted) == ["bikes", "bunny"]
    if not {f"demo-{name}" for name in quoted} <= here.keys():
        pytest.skip("needs the demo's clips: hoca assets pull demo-bikes demo-bunny")
    with features.Extractor(captioner.specification, device="cpu", precision="float32") as extractor:
        said = {name: captioner.describe(extractor.extract(here[f"demo-{name}"])) for name in quoted}
    assert {name: caption.text for name, caption in said.items()} == quoted


@pytest.mark.slow
def test_it_names_what_is_in_real_videos(captioner: VideoCaptioner, shared_data: Path, tmp_path: Path) -> None:
    """Sentences of official-val videos that fit them better than those of their neighbours do."""
    from hoca.features import FeatureStore
    from hoca.metrics import evaluate

    store, chosen = FeatureStore(tmp_path / "features"), []
    for example in msrvtt_dinov2.videos(shared_data, msrvtt_dinov2.DinoOptions()):
        if example.video.split == "test":
            seen = {name: example.features[name] for name in captioner.specification if name in example.features}
            store.write(
                example.video.id, seen, specification=captioner.specification, absent=example.absent, wait=False
            )
            chosen.append(example.video)
    write_corpus(Corpus("aside", tuple(chosen)), tmp_path)
    batches = evaluation_batches(
        FolderDataset(tmp_path, modalities=list(captioner.model.config.modalities)), "test", 64
    )
    said = caption_batches(captioner.model, batches, captioner.search, Distributed(0, 1, torch.device("cpu")))
    references = {video.id: list(video.captions) for video in chosen}
    shifted = dict(zip(said, [*list(said.values())[1:], said[chosen[0].id]], strict=True))
    right, wrong = (evaluate(references, each, metrics=("CIDEr",)).corpus["CIDEr"] for each in (said, shifted))
    assert right > 0.45
    assert right > 3 * wrong


def test_loading_it_imports_no_compiler() -> None:
    """torch brings its compiler in to initialise meta tensors, which takes longer than importing torch itself."""
    code = (
        "import sys, hoca; hoca.load(); sys.exit(any(name in sys.modules for name in ('torch._dynamo', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
