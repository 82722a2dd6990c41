"""What the backbones of one kind have in common: which frames or sounds they want, and how they become steps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from hoca.errors import UserError
from hoca.features import sampling
from hoca.features.resize import Bicubic
from hoca.media.clock import Clock, Spans
from hoca.media.request import DecodedVideo, First, Pictures, Spread

if TYPE_CHECKING:
    from torch import nn

    from hoca.features.network import Network

Kind = Literal["image", "motion", "audio"]
FeatureSettings = Mapping[str, Any]  # one modality of a specification
Later = Callable[[], list[np.ndarray]]  # waits until the features of all clips are there
FIRST = First(800, least=16)  # the frames that a motion network sees at once


@dataclass(frozen=True, kw_only=True)
class Backbone(ABC):
    """A feature extractor by name: what it takes, what it gives, where its weights come from."""

    name: str
    width: int
    build: Callable[[], nn.Module] | None = None  # None: plain arithmetic, no network
    asset: str | None = None  # name of the weights in `hoca.assets`
    weights: str | None = None  # their SHA-256 where they are no asset
    version: int = 1  # raised when the same file gives other features than before
    side: int = 224  # of the pictures it sees
    rate: int | None = None  # samples per second of the sound it hears
    # Whether `auto` takes it: cosines with float32 are 0.9995 and above for DINOv2, down to 0.98 for EfficientNet.
    bfloat16: bool = False

    kind: ClassVar[Kind]
    steps: ClassVar[dict[str, int]]  # sampling → the most steps it gives

    @abstractmethod
    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        """Features [T, width] of each clip, none of which is lacking; a GPU may still compute when this returns."""

    @abstractmethod
    def lacking(self, clip: DecodedVideo) -> str | None:
        """Why the clip has no such features; None if it has."""

    @abstractmethod
    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        """The seconds of a clip that each step of its features, [steps, width], was made of."""

    def pictures(self, how: FeatureSettings) -> Pictures | None:
        """The frames to decode; None: it takes sound."""
        return None

    def seconds(self, how: FeatureSettings) -> float | None:
        """How much of the sound to decode; None: all."""
        return None

    def check(self, how: FeatureSettings, modality: str) -> None:
        """Refuse settings that it cannot follow."""
        if how.get("sampling") not in self.steps:
            raise UserError(
                f"feature specification: {modality} wants sampling {how.get('sampling')!r}, "
                f"{self.name} knows {', '.join(self.steps)}"
            )
        if not isinstance(how.get("steps"), int) or not 1 <= how["steps"] <= sampling.MAX_STEPS:
            raise UserError(
                f"feature specification: {modality} wants {how.get('steps')!r} steps, give 1 to {sampling.MAX_STEPS}"
            )
        if how.get("version", 1) != self.version:
            raise UserError(
                f"feature specification: {modality} was made by version {how['version']!r} of {self.name}, "
                f"this hoca has version {self.version}: extract the features again"
            )


@dataclass(frozen=True, kw_only=True)
class ImageBackbone(Backbone):
    """A network that sees single pictures of side × side."""

    kind: ClassVar[Kind] = "image"
    steps: ClassVar[dict[str, int]] = {"default": 20, "paper": 80}

    def pictures(self, how: FeatureSettings) -> Pictures | None:
        return Pictures(Spread(how["steps"]), filter="common", transform=Bicubic(self.side))

    def lacking(self, clip: DecodedVideo) -> str | None:
        return clip.absent.get("picture")

    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        return clock.parts(steps)

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        assert network is not None
        return network.batched([clip.pictures[modality] for clip in clips])


@dataclass(frozen=True, kw_only=True)
class MotionBackbone(Backbone):
    """A network that sees a stretch of frames and gives one vector for every eight of them."""

    kind: ClassVar[Kind] = "motion"
    steps: ClassVar[dict[str, int]] = {"default": 20, "paper": 80}

    def pictures(self, how: FeatureSettings) -> Pictures | None:
        pick = FIRST if how["sampling"] == "default" else sampling.Chunks(how["steps"])
        return Pictures(pick, (self.side, self.side), "area")

    def lacking(self, clip: DecodedVideo) -> str | None:
        return clip.absent.get("picture")

    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        if how["sampling"] != "default":
            return sampling.Chunks(steps).spans(clock)
        numbers = FIRST(clock.frames)
        outputs = -(-len(numbers) // sampling.STRIDE)
        frames = (
            numbers[first * sampling.STRIDE : last * sampling.STRIDE]
            for first, last in sampling.windows(outputs, steps)
        )
        return tuple((clock.at(some[0]), clock.at(some[-1] + 1)) for some in frames)

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        from hoca.features import stretches

        assert network is not None
        frames = [clip.pictures[modality] for clip in clips]
        if how["sampling"] == "default":
            outputs = network.by_clip(frames)
            return lambda: [sampling.averaged(values, how["steps"]) for values in outputs()]
        chunks = sampling.Chunks(how["steps"])
        made = [stretches.pooled(network, f, chunks, clip.frames) for f, clip in zip(frames, clips, strict=True)]
        return lambda: made


@dataclass(frozen=True, kw_only=True)
class SoundBackbone(Backbone):
    """A network that hears the waveform."""

    shortest: int = 1  # samples; with fewer it is absent
    step_seconds: float = 1.0  # from one step to the next
    begins: float = 0.0  # seconds; where the first step begins, before the sound where that is padded
    needs: float = 1.0  # seconds of sound from a step's begin on; with less there is no such step
    kind: ClassVar[Kind] = "audio"
    steps: ClassVar[dict[str, int]] = {"default": 16, "paper": 80}

    def seconds(self, how: FeatureSettings) -> float | None:
        # The first steps see no further than a few steps past their end.
        return (how["steps"] + 8) * self.step_seconds if how["sampling"] == "default" else None

    def lacking(self, clip: DecodedVideo) -> str | None:
        if clip.waveform is None:
            return clip.absent.get("sound", "no sound")
        if len(clip.waveform) < self.shortest:
            return f"only {len(clip.waveform) / clip.rate:.2f} s of sound"
        return None

    def outputs(self, seconds: float) -> int:
        """How many steps the network gives for so much sound."""
        return max(1, 1 + math.floor((seconds - self.begins - self.needs) / self.step_seconds))

    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        outputs = steps
        if how["sampling"] != "default" and steps == how["steps"]:
            outputs = max(self.outputs(clock.heard), steps)
        edges = [max(self.begins + i * self.step_seconds, 0.0) for i in range(outputs + 1)]
        return tuple(
            (min(edges[first], clock.heard), min(edges[last], clock.heard))
            for first, last in sampling.windows(outputs, steps)
        )

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        assert network is not None
        outputs = network.by_clip([clip.waveform for clip in clips if clip.waveform is not None])
        if how["sampling"] == "default":
            return lambda: [values[: how["steps"]] for values in outputs()]
        return lambda: [sampling.shortened(values, how["steps"]) for values in outputs()]
