"""Every backbone says which seconds its steps were made of: what is changed there, and nowhere else, changes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from hoca.features.backbones import BACKBONES, Backbone
from hoca.features.backbones.hugging_face import from_folder
from hoca.features.backbones.kinds import SoundBackbone
from hoca.features.network import Network
from hoca.features.stretches import CONTEXT
from hoca.media import DecodedVideo
from hoca.media.clock import Clock
from hoca.networks import dinov2, soundnet, vggish

PROVIDED = ("image", "video", "spectrogram", "waveform")  # models of transformers
NAMES = [*BACKBONES, *(f"hf:{kind}" for kind in PROVIDED)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("brought")


@lru_cache
def from_transformers(kind: str, folder: Path) -> Backbone:
    from . import tiny_transformers  # here, so that without transformers the others are tested

    return from_folder(getattr(tiny_transformers, kind)(folder / kind))


def named(name: str, folder: Path) -> Backbone:
    if name in NARROW:
        return replace(BACKBONES[name], build=NARROW[name])
    return BACKBONES[name] if name in BACKBONES else from_transformers(name.removeprefix("hf:"), folder)


def narrow_vggish() -> nn.Module:
    return vggish.VGGish(channels=(4, 4, 6, 6, 8, 8), hidden=16)


def narrow_dinov2() -> nn.Module:
    return dinov2.DINOv2(width=24, depth=2, heads=3)


NARROW = {"vggish": narrow_vggish, "dinov2-small": narrow_dinov2}  # as they are, but for their width: quicker


def sampled(found: Backbone, sampling: str, steps: int | None = None) -> dict:
    return {"sampling": sampling, "steps": steps or found.steps[sampling]}


# First and last span of a clip of 60 s with 1500 frames, and how many steps it has, by default and as in the paper.
PICTURES = [(20, (0, 3), (57, 60)), (80, (0, 0.75), (59.25, 60))]
I3D = [(20, (0, 1.6), (30.4, 32)), (80, (0, 2.56), (57.44, 60))]
LOG_MEL = [(16, (0, 0.96), (14.4, 15.36)), (62, (0, 0.96), (58.56, 59.52))]
SECONDS = [(16, (0, 1), (15, 16)), (60, (0, 1), (59, 60))]
MINUTE = {
    **{f"efficientnet-lite{size}": PICTURES for size in (0, 1, 2)},
    "dinov2-small": PICTURES,
    **{"inception-resnet-v2": PICTURES, "light-image": PICTURES, "light-motion": PICTURES, "hf:image": PICTURES},
    **{"i3d-kinetics-400": I3D, "i3d-imagenet": I3D},
    "hf:video": [(20, (0.2, 2.76), (57.2, 59.76)), I3D[1]],
    "soundnet-8": [(16, (0, 0.289), (21.095, 22.581)), (41, (0, 0.289), (58.247, 59.733))],
    **{"log-mel": LOG_MEL, "vggish": LOG_MEL, "hf:spectrogram": SECONDS, "hf:waveform": SECONDS},
    "light-audio": [(16, (0, 3.75), (56.25, 60)), PICTURES[1]],
}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_and_the_last_step_of_a_minute(name: str, folder: Path) -> None:
    found = named(name, folder)
    for sampling, (steps, first, last) in zip(("default", "paper"), MINUTE[name], strict=True):
        spans = found.spans(sampled(found, sampling), steps, Clock(1500, 60.0, 60.0))
        assert len(spans) == steps
        assert spans[0] == pytest.approx(first, abs=1e-3)
        assert spans[-1] == pytest.approx(last, abs=1e-3)


@dataclass(frozen=True)
class Clip:
    """A still picture and even noise; where it is changed, in one stretch of each, another picture and a tone."""

    seconds: float
    fps: int
    heard: float
    picture: tuple[float, float]
    tone: tuple[float, float]

    @property
    def clock(self) -> Clock:
        return Clock(round(self.seconds * self.fps), self.seconds, self.heard)

    def decoded(self, found: Backbone, how: dict, *, changed: bool) -> DecodedVideo:
        rng = np.random.default_rng(0)
        wanted = found.pictures(how)
        if wanted is None:
            assert found.rate
            seconds = min(self.heard, found.seconds(how) or self.heard)
            sound = rng.standard_normal(round(seconds * found.rate)).astype(np.float32) * 0.02
            if changed:
                inside = within(np.arange(len(sound)), found.rate, self.tone)
                sound[inside] = np.sin(np.arange(inside.sum()) / 3) * 0.4
            return DecodedVideo({}, {}, 0, self.seconds, sound, found.rate)
        numbers = np.array(wanted.pick(self.clock.frames))  # type: ignore[operator]
        side = SIDES.get(found.name, min(found.side, 64))
        pictures = rng.integers(0, 100, (1, side, side, 3), np.uint8).repeat(len(numbers), 0)
        if changed:
            pictures[within(numbers, self.fps, self.picture)] += 150
        return DecodedVideo({found.kind: pictures}, {}, self.clock.frames, self.seconds, None, 0)


def within(numbers: np.ndarray, rate: int, stretch: tuple[float, float]) -> np.ndarray:
    """Which frames or samples are of the stretch."""
    return (numbers >= stretch[0] * rate) & (numbers < stretch[1] * rate)


SIDES = {"inception-resnet-v2": 75, "i3d-kinetics-400": 8, "i3d-imagenet": 8}  # pixels; the fewer the quicker
CLIPS = [Clip(60, 25, 18, (22, 28), (3.5, 9.5)), Clip(5, 10, 4.2, (2, 3.1), (2, 3.1))]
STEPS = 6


def reach(name: str, clip: Clip) -> float:
    """How many seconds beyond its span a step may see."""
    frame = 1 / clip.fps
    if name.startswith("i3d"):
        return CONTEXT * frame
    heard = {"soundnet-8": 1.33, "hf:spectrogram": 4.5, "log-mel": 0.015, "vggish": 0.015, "light-audio": 0.025}
    before = clip.seconds / (2 * STEPS)  # the last of two pictures of the step before
    return heard.get(name, before if name == "light-motion" else frame)


@lru_cache(maxsize=1)
def network(found: Backbone) -> Network | None:
    """Random weights at which what goes in is still to be seen in what comes out, however deep it is."""
    if found.build is None:
        return None
    made = Network.load(found, None, torch.device("cpu"), "float32")
    for name, values in made.module.named_parameters() if found.name in BACKBONES else ():
        if values.ndim > 1:
            nn.init.normal_(values, std=(2 / values[0].numel()) ** 0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(values)
    return made


@pytest.mark.parametrize("clip", CLIPS, ids=["long", "short"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_changed_in_a_stretch_changes_the_steps_of_that_stretch(name: str, clip: Clip, folder: Path) -> None:
    found = named(name, folder)
    first, last = clip.tone if found.kind == "audio" else clip.picture
    beyond = reach(name, clip)
    for sampling in ("default", "paper"):
        how = sampled(found, sampling, STEPS)
        clips = [clip.decoded(found, how, changed=changed) for changed in (False, True)]
        plain, other = found.begin(network(found), clips, found.kind, how)()
        spans = found.spans(how, len(plain), clip.clock)
        changed = np.abs(other - plain).max(1) > 1e-3
        inside = [first < (start + end) / 2 < last for start, end in spans]
        outside = [start - beyond > last or end + beyond < first for start, end in spans]
        assert any(inside)
        assert changed[inside].all(), (spans, changed)
        assert not changed[outside].any(), (spans, changed)


@pytest.mark.parametrize(
    "found", [b for b in BACKBONES.values() if isinstance(b, SoundBackbone) and b.build], ids=lambda found: found.name
)
def test_a_network_gives_as_many_steps_as_its_backbone_expects(found: SoundBackbone) -> None:
    assert found.build is not None
    with torch.device("meta"):  # shapes alone
        module = found.build()
        for samples in np.random.default_rng(0).integers(30_001, 3_000_000, 30).tolist():
            assert module(torch.empty(1, samples)).shape[1] == found.outputs(samples / (found.rate or 0)), samples


def test_a_step_of_soundnet_is_centred_on_what_its_layers_see() -> None:
    centre, stride = 0.0, 1
    for _, kernel, padding, pool in soundnet.LAYERS:
        centre += stride * ((kernel - 1) / 2 - padding)
        stride *= 2
        centre += stride * (pool - 1) / 2
        stride *= pool
    found = BACKBONES["soundnet-8"]
    assert isinstance(found, SoundBackbone)
    assert found.step_seconds == pytest.approx(stride / soundnet.RATE)
    assert found.begins + found.step_seconds / 2 == pytest.approx(centre / soundnet.RATE)


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_that_ends_before_the_pictures_has_its_steps_before_that(name: str, folder: Path) -> None:
    found = named(name, folder)
    if found.kind != "audio":
        return
    how = sampled(found, "paper")
    steps = found.outputs(7.3) if type(found) is SoundBackbone else how["steps"]
    spans = found.spans(how, steps, Clock(1500, 60.0, 7.3))
    assert all(start < end <= 7.3 for start, end in spans)
    assert spans[-1][1] > 6
