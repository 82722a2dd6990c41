"""The features of `hoca.features.light` as backbones: no network, no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hoca.features import light
from hoca.features.backbones.kinds import Backbone, FeatureSettings, ImageBackbone, Kind, Later, SoundBackbone
from hoca.features.picture import shrink
from hoca.media.clock import Clock, Spans, equal_parts
from hoca.media.request import DecodedVideo, Pictures, Spread

if TYPE_CHECKING:
    from hoca.features.network import Network

EVEN = {"even": 20, "default": 20, "paper": 80}


@dataclass(frozen=True, kw_only=True)
class LightImage(ImageBackbone):
    steps: ClassVar[dict[str, int]] = EVEN

    def pictures(self, how: FeatureSettings) -> Pictures | None:
        return Pictures(Spread(how["steps"]), transform=shrink)

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        made = [light.image(clip.pictures[modality], how["steps"]) for clip in clips]
        return lambda: made


@dataclass(frozen=True, kw_only=True)
class LightMotion(Backbone):
    kind: ClassVar[Kind] = "motion"
    steps: ClassVar[dict[str, int]] = EVEN

    def pictures(self, how: FeatureSettings) -> Pictures | None:
        return Pictures(Spread(2 * how["steps"]), transform=shrink)

    def lacking(self, clip: DecodedVideo) -> str | None:
        return clip.absent.get("picture") or ("a single frame has no motion" if clip.frames < 2 else None)

    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        return clock.parts(steps)

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        made = [light.motion(clip.pictures[modality], how["steps"]) for clip in clips]
        return lambda: made


@dataclass(frozen=True, kw_only=True)
class LightAudio(SoundBackbone):
    steps: ClassVar[dict[str, int]] = {"even": 16, "default": 16, "paper": 80}

    def seconds(self, how: FeatureSettings) -> float | None:
        return None

    def lacking(self, clip: DecodedVideo) -> str | None:
        if clip.waveform is None:
            return clip.absent.get("sound", "no sound")
        return "silent throughout" if light.silent(clip.waveform) else None

    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        return equal_parts(clock.heard, steps)

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        made = [light.audio(clip.waveform, how["steps"]) for clip in clips if clip.waveform is not None]
        return lambda: [values for values in made if values is not None]
