"""A captioner that was fitted to say how sure it is does so in Python, in JSON and on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import hoca as package
from hoca.checkpoint import Checkpoint, Checkpoints, read_checkpoint, write_checkpoint
from hoca.data import binding
from hoca.generation import Confidence
from hoca.training import train

from .conftest import Command
from .training.tiny import tiny

CLIPS = binding.BindingOptions(train=6, validation=2, test=2, captions=2, seconds=1.0, fps=8, picture=32, silent=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binding.prepare(tmp_path_factory.mktemp("sure") / "data", CLIPS, videos=True)


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    return train(tiny(data, data.parent / "run", epochs=2, beam=3))


def model(run: Path, **sure: float) -> Path:
    """The run's model as a file that is fitted to say how sure it is."""
    found, out = read_checkpoint(Checkpoints(run).best), run.parent / f"{'-'.join(map(str, sure.values()))}.safetensors"
    write_checkpoint(out, Checkpoint(found.tensors, found.facts | {"confidence": Confidence(**sure).to_json()}))
    return out


def clip(data: Path) -> Path:
    return sorted((data / "videos").iterdir())[0]


def test_a_caption_says_how_sure_it_is(data: Path, run: Path) -> None:
    with_bias = package.load(model(run, bias=1.0))
    caption = with_bias.caption(clip(data))
    assert caption.confidence == pytest.approx(0.731, abs=1e-3)
    assert caption.to_json()["confidence"] == caption.confidence
    assert with_bias.caption(clip(data), replace(with_bias.search, beam=1)).confidence is None
    assert package.load(run).caption(clip(data)).confidence is None


def test_what_is_less_likely_is_less_sure(data: Path, run: Path) -> None:
    weighed = package.load(model(run, bias=0.0, logprob=1.0)).caption(clip(data))
    assert weighed.confidence is not None
    assert weighed.confidence < 0.5


def test_unsure_sentences_are_marked_and_the_mark_is_explained_once(hoca: Command, data: Path, run: Path) -> None:
    files = sorted((data / "videos").iterdir())[:2]
    unsure = model(run, bias=-2.0)  # 0.119
    result = hoca("caption", *files, "--model", unsure)
    assert result.code == 0
    assert [line.endswith(" ?") for line in result.out.splitlines()] == [True, True]
    assert result.err.count("? = unsure: confidence below 0.2") == 1
    for sure in (["--model", unsure, "--min-confidence", "0.1"], ["--model", run]):
        result = hoca("caption", files[0], *sure)
        assert not result.out.rstrip().endswith("?")
        assert "unsure" not in result.err
    told = json.loads(hoca("caption", files[0], "--model", unsure, "--json").out)
    assert told["confidence"] == pytest.approx(0.119, abs=1e-3)
    assert "?" not in told["text"]


@pytest.mark.parametrize(
    ("bias", "options", "why"),
    [(1.0, ["--json"], "--format json has no marks"), (1.0, ["--beam", "1"], "greedy"), (None, [], "not calibrated")],
)
def test_a_bound_that_marks_nothing_says_so(
    hoca: Command, data: Path, run: Path, bias: float | None, options: list[str], why: str
) -> None:
    used = run if bias is None else model(run, bias=bias)
    result = hoca("caption", clip(data), "--model", used, "--min-confidence", "0.5", *options)
    assert result.code == 0
    assert result.err.count("--min-confidence") == 1
    assert why in result.err


def test_a_file_without_pictures_says_that_nothing_was_seen(hoca: Command, data: Path, run: Path) -> None:
    sound = data / "sound.wav"
    _write_wav(sound)
    result = hoca("caption", sound, "--model", run)
    assert result.code == 0
    assert "nothing was seen" in result.err


def _write_wav(path: Path) -> None:
    import wave

    import numpy as np

    time = np.arange(32000) / 16000
    samples = (8000 * np.sin(2 * np.pi * 440 * time)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16000, len(samples), "NONE", "not compressed"))
        file.writeframes(samples.tobytes())
