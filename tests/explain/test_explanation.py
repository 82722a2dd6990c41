"""An explanation agrees with the caption that it explains."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hoca
from hoca import media
from hoca.captioning import Caption, VideoCaptioner
from hoca.errors import UserError
from hoca.explain import collect, explain, model_name
from hoca.generation import Confidence
from hoca.media import DecodeLimits, Request, preview, write
from hoca.media.decode import decode
from hoca.media.preview import BYTES, decode_with_preview, envelope, thumbnails
from hoca.models import Explanation
from hoca.models.baselines.dense_cap import DenseCap, DenseCapMemory

from .trained import clips, fit, silent_captioner, untrained


def test_an_explanation_holds_what_the_caption_says(data: Path, run: Path) -> None:
    clip = clips(data, silent=False)[0]
    caption = hoca.load(run).caption(clip)
    explained = explain(clip, run)
    found = explained.captions[0]
    assert (explained.video, found.model) == (clip.name, "bound")
    assert (found.text, found.words, found.logprob) == (caption.text, caption.words, caption.logprob)
    assert found.alternatives == caption.alternatives
    assert found.scores == caption.scores
    assert len(found.scores) == 1 + len(found.alternatives)
    assert [m.name for m in found.modalities] == ["image", "motion", "audio"]
    for modality in found.modalities:
        words, steps = caption.explanation.attention[modality.name].shape
        assert len(modality.spans) == steps
        assert len(modality.weights) == len(modality.share) == words
        assert modality.weights[0] == pytest.approx(caption.explanation.attention[modality.name][0].tolist())
        assert [group.order for group in modality.groups] == [1, 2, 2, 3]


@pytest.mark.parametrize(("bias", "unsure"), [(1.0, False), (-2.0, True)])
def test_an_explanation_says_how_sure_the_model_is(data: Path, run: Path, bias: float, unsure: bool) -> None:
    captioner = hoca.load(run)
    captioner.confidence = Confidence(bias=bias)
    found = explain(clips(data, silent=False)[0], captioner).captions[0]
    assert found.confidence == pytest.approx(1 / (1 + math.exp(-bias)), abs=1e-3)
    assert found.unsure == unsure


def test_theta_is_that_of_the_model(data: Path, run: Path, unary: Path) -> None:
    clip = clips(data, silent=False)[0]
    captioner = hoca.load(run)
    for modality in explain(clip, captioner).captions[0].modalities:
        assert [group.theta for group in modality.groups] == captioner.model.merge.theta[modality.name].tolist()
    assert all(g.theta is None for m in explain(clip, unary).captions[0].modalities for g in m.groups)


def test_models_side_by_side(data: Path, run: Path, unary: Path) -> None:
    clip = clips(data, silent=False)[0]
    explained = explain(clip, run, compare=[unary], beam=2)
    assert [each.model for each in explained.captions] == ["bound", "alone"]
    assert [len(each.alternatives) for each in explained.captions] == [1, 1]
    assert explained.captions[0].kind == "low-rank attention of orders 1, 2, 3, rank 1"
    assert explained.captions[1].kind == "attention of order 1"


def test_a_model_without_groups_tells_its_attention_and_its_shares(data: Path, soft: Path) -> None:
    found = explain(clips(data, silent=False)[0], soft).captions[0]
    assert found.kind == "sa-lstm"
    assert [m.name for m in found.modalities] == ["image", "motion", "audio"]
    for modality in found.modalities:
        assert (modality.groups, len(modality.share)) == ((), len(found.words))
        assert [sum(row) for row in modality.weights] == pytest.approx([1.0] * len(found.words), abs=1e-5)


def test_a_model_tells_what_its_words_chose_and_what_it_found(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, clip = tmp_path_factory.mktemp("told"), clips(data, silent=True)[0]
    patterns = fit(data, folder / "patterns", model="tddf", epochs=2)
    tags = fit(data, folder / "tags", model="scn", epochs=2, tags=12, factors=8)
    first, second = explain(clip, patterns, compare=[tags]).captions
    assert list(first.choices["fusion"]) == ["image", "motion", "all together"]
    totals = [sum(shares) for shares in zip(*first.choices["fusion"].values(), strict=True)]
    assert totals == pytest.approx([1.0] * len(first.words), abs=1e-5)
    assert (first.found, second.choices, second.modalities) == ({}, {}, ())
    probabilities = [p for _, p in second.found["tags"]]
    assert len(probabilities) == 8
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < probabilities[-1] < probabilities[0] < 1


class Backwards(DenseCap):
    """The last choice of steps comes first."""

    def views(self, *given: Any) -> list[DenseCapMemory]:
        return super().views(*given)[::-1]


def test_views_are_ranked_by_the_log_probability_of_a_word(data: Path, run: Path) -> None:
    clip, captioner = clips(data, silent=False)[0], untrained(run, "dense-cap", steps=3, sequences=2)
    model = Backwards(captioner.model.config, captioner.model.vocabulary).eval()
    model.load_state_dict(captioner.model.state_dict())
    forwards, backwards = (
        each.caption(clip) for each in (captioner, VideoCaptioner(model, captioner.specification, captioner.search))
    )
    assert len({view.logprob_per_word for view in forwards.views}) == 2
    assert [3 - view.view for view in forwards.views] == [view.view for view in backwards.views]
    for caption in (forwards, backwards):
        scores = [view.logprob_per_word for view in caption.views]
        assert scores == sorted(scores, reverse=True)
        first = next(view for view in caption.views if view.view == 1)
        assert first.text == caption.text
        assert first.logprob_per_word == pytest.approx(caption.logprob / (len(caption.words) + 1))


@pytest.mark.parametrize("name", ["dense-cap", "scn", "l-hoca-ub"])
def test_a_caption_without_its_explanation_says_the_same(data: Path, run: Path, name: str) -> None:
    clip, captioner = clips(data, silent=False)[0], untrained(run, name)
    caption = captioner.caption(clip)
    assert caption.explanation != Explanation()
    assert bool(caption.views) == (name == "dense-cap")
    (many,) = captioner.captions([clip], explain=False)
    segment = next(captioner.segments(clip, every=10, explain=False))
    for plain in (captioner.caption(clip, explain=False), many, segment.caption):
        assert isinstance(plain, Caption)
        assert (plain.text, plain.words, plain.absent) == (caption.text, caption.words, caption.absent)
        assert [text for text, _ in plain.alternatives] == [text for text, _ in caption.alternatives]
        assert plain.logprob == pytest.approx(caption.logprob, rel=1e-3)
        assert (plain.explanation, plain.views) == (Explanation(), ())


def test_a_model_that_explains_nothing_says_its_sentence(data: Path, run: Path) -> None:
    clip, silent = clips(data, silent=True)[0], silent_captioner(run)
    first, second = explain(clip, run, compare=[silent]).captions
    assert first.modalities
    assert (second.kind, second.modalities, list(second.absent)) == ("bag", (), ["audio"])
    assert second.words == silent.caption(clip).words
    assert len(second.words) == 5


def test_the_pictures_of_a_report_are_decoded_within_the_models_limits(data: Path, run: Path) -> None:
    clip, model = clips(data, silent=False)[0], hoca.load(run)
    caption = model.caption(clip)
    model.limits = DecodeLimits(bytes=100)
    with pytest.raises(UserError, match="more than the limit of 100"):
        collect(clip, [("bound", model, caption)])


def test_limits_that_are_given_to_explain_leave_the_model_as_it_was(data: Path, run: Path) -> None:
    clip, model = clips(data, silent=False)[0], hoca.load(run)
    with pytest.raises(UserError, match="100"):
        explain(clip, model, limits=DecodeLimits(bytes=100))
    assert model.limits is None
    assert model.caption(clip).text


@pytest.mark.parametrize("command", ["explain {} --out {}", "caption {} --report {}"])
def test_a_file_is_decoded_in_worker_processes_alone(data: Path, run: Path, tmp_path: Path, command: str) -> None:
    """Libraries stay mapped once they are loaded: those of the main process tell whether it ever opened the file."""
    arguments = command.format(clips(data, silent=False)[0], tmp_path / "report.html").split()
    code = (
        "import sys\nfrom hoca.cli import _run\n"
        f"sys.argv = ['hoca', *{arguments!r}, '--model', {str(run)!r}]\n"
        "assert _run() == 0\n"
        "assert 'libavcodec' not in open('/proc/self/maps').read()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "report.html").is_file()


def test_a_long_files_sound_is_shown_whole(tmp_path: Path) -> None:
    """Features may take the beginning of the sound alone; its outline does not."""
    waveform = np.zeros(16000 * 3, np.float32)
    waveform[-16000:] = 0.5
    clip = tmp_path / "clip.mp4"
    write(clip, np.zeros((12, 32, 32, 3), np.uint8), 4.0, waveform, 16000)
    decoded, shown = decode_with_preview(Request(clip, rate=16000, sound_seconds=1.0), decode, 3)
    assert decoded.waveform is not None
    assert len(decoded.waveform) <= 16000
    assert shown.clock.duration == pytest.approx(3, abs=0.1)
    assert max(shown.envelope[: len(shown.envelope) // 2]) < 0.1 < shown.envelope[-20]


def test_a_silent_clip_has_no_outline_of_sound(data: Path, run: Path) -> None:
    explained = explain(clips(data, silent=True)[0], run)
    assert list(explained.captions[0].absent) == ["audio"]
    assert [m.name for m in explained.captions[0].modalities] == ["image", "motion"]


def test_pictures_come_with_the_times_at_which_they_are_shown(data: Path) -> None:
    shown = preview(clips(data, silent=False)[0], decode)
    assert shown.clock.frames == 8
    times = [each.time for each in shown.thumbnails]
    assert times == pytest.approx([i / 8 for i in range(8)], abs=1e-3)  # eight frames: none is shown twice
    assert all(each.jpeg.startswith(b"\xff\xd8") for each in shown.thumbnails)
    assert max(shown.envelope) == 1


@pytest.mark.parametrize("heard", [1.0, 6.0])
def test_pictures_and_sound_may_end_at_different_times(tmp_path: Path, heard: float) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (30, 32, 32, 3), np.uint8)
    tone = np.sin(np.arange(int(16000 * heard)) / 5).astype(np.float32)
    media.write(tmp_path / "clip.mp4", pictures, 10, tone, 16000)
    shown = preview(tmp_path / "clip.mp4", decode)
    assert shown.clock.seen == pytest.approx(3.0, abs=0.02)
    assert shown.clock.heard == pytest.approx(heard, abs=0.1)  # of whole frames of AAC
    assert shown.clock.duration == max(shown.clock.seen, shown.clock.heard)
    loud = [i for i, peak in enumerate(shown.envelope) if peak > 0.1]
    assert loud[-1] / len(shown.envelope) == pytest.approx(heard / shown.clock.duration, abs=0.05)


def test_a_caption_that_was_made_already_is_not_made_again(data: Path, run: Path) -> None:
    clip = clips(data, silent=False)[0]
    model = hoca.load(run)
    caption = model.caption(clip)
    assert collect(clip, [("mine", model, caption)]).captions[0].text == caption.text


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
    code = "import sys; sys.modules['torch'] = None; import hoca.media.preview"
    subprocess.run([sys.executable, "-c", code], check=True)
