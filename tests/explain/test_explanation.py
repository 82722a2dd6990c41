"""An explanation agrees with the caption that it explains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hoca
from hoca.errors import UserError
from hoca.explain import collect, explain, model_name
from hoca.explain.film import BYTES, envelope, film, thumbnails
from hoca.media import Limits

from .trained import clips


def test_an_explanation_holds_what_the_caption_says(data: Path, run: Path) -> None:
    clip = clips(data, silent=False)[0]
    caption = hoca.load(run).caption(clip)
    explained = explain(clip, run)
    reading = explained.readings[0]
    assert (explained.video, reading.model) == (clip.name, "bound")
    assert (reading.text, reading.words, reading.logprob) == (caption.text, caption.words, caption.logprob)
    assert reading.alternatives == caption.alternatives
    assert [m.name for m in reading.modalities] == ["image", "motion", "audio"]
    for modality in reading.modalities:
        words, steps = caption.attention.merged[modality.name].shape
        assert len(modality.spans) == steps
        assert len(modality.weights) == len(modality.share) == words
        assert modality.weights[0] == pytest.approx(caption.attention.merged[modality.name][0].tolist())
        assert [group.order for group in modality.groups] == [1, 2, 2, 3]


def test_theta_is_that_of_the_model(data: Path, run: Path, unary: Path) -> None:
    clip = clips(data, silent=False)[0]
    model = hoca.load(run)
    for modality in explain(clip, model).readings[0].modalities:
        assert [group.theta for group in modality.groups] == model.merge.theta[modality.name].tolist()
    assert all(g.theta is None for m in explain(clip, unary).readings[0].modalities for g in m.groups)


def test_models_side_by_side(data: Path, run: Path, unary: Path) -> None:
    clip = clips(data, silent=False)[0]
    explained = explain(clip, run, compare=[unary], beam=2)
    assert [reading.model for reading in explained.readings] == ["bound", "alone"]
    assert [len(reading.alternatives) for reading in explained.readings] == [1, 1]
    assert explained.readings[0].kind == "low-rank attention of orders 1, 2, 3, rank 1"
    assert explained.readings[1].kind == "attention of order 1"


def test_the_pictures_of_a_report_are_decoded_within_the_models_limits(data: Path, run: Path) -> None:
    clip, model = clips(data, silent=False)[0], hoca.load(run)
    caption = model.caption(clip)
    model.limits = Limits(bytes=100)
    with pytest.raises(UserError, match="more than the limit of 100"):
        collect(clip, [("bound", model, caption)])


def test_a_silent_clip_has_no_outline_of_sound(data: Path, run: Path) -> None:
    explained = explain(clips(data, silent=True)[0], run)
    assert list(explained.readings[0].absent) == ["audio"]
    assert [m.name for m in explained.readings[0].modalities] == ["image", "motion"]


def test_pictures_come_with_the_times_at_which_they_are_shown(data: Path) -> None:
    shown = film(clips(data, silent=False)[0], 20)
    assert shown.clock.frames == 8
    times = [each.time for each in shown.thumbnails]
    assert times == pytest.approx([i / 8 for i in range(8)], abs=1e-3)  # eight frames: none is shown twice
    assert all(each.jpeg.startswith(b"\xff\xd8") for each in shown.thumbnails)
    assert max(shown.envelope) == 1


def test_a_caption_that_was_made_already_is_not_made_again(data: Path, run: Path) -> None:
    clip = clips(data, silent=False)[0]
    model = hoca.load(run)
    caption = model.caption(clip)
    assert collect(clip, [("mine", model, caption)]).readings[0].text == caption.text


def test_pictures_full_of_detail_stay_small() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (80, 256, 256, 3), np.uint8)
    assert sum(len(each.jpeg) for each in thumbnails(noise, tuple(range(80)))) <= BYTES


def test_the_outline_of_a_waveform() -> None:
    assert envelope(None) == ()
    assert envelope(np.zeros(0, np.float32)) == ()
    assert envelope(np.zeros(10, np.float32), 5) == (0.0,) * 5
    assert envelope(np.array([0.1, -0.2, 0.4, 0.0], np.float32), 2) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("path", "name"),
    [("runs/mine", "mine"), ("runs/mine/checkpoint/best.safetensors", "mine"), ("default", "default"), (".", None)],
)
def test_what_a_model_is_called(path: str, name: str | None) -> None:
    assert model_name(path) == (name or Path.cwd().name)


def test_decoding_pictures_for_a_report_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import hoca.explain.film"
    subprocess.run([sys.executable, "-c", code], check=True)
