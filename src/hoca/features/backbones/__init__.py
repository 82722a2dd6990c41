"""The backbones by name. Each network is in a file of its own, imported when it is built: this one needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoca.errors import UserError, nearest
from hoca.features import light
from hoca.features.backbones.kinds import Backbone, Images, Motion, Sound
from hoca.features.backbones.plain import LightAudio, LightImage, LightMotion

if TYPE_CHECKING:
    from torch import nn

__all__ = ["BACKBONES", "Backbone", "backbone"]


def _efficientnet(lite: int) -> nn.Module:
    from hoca.features.backbones.efficientnet import SCALES, EfficientNetLite

    return EfficientNetLite(SCALES[lite])


def _i3d() -> nn.Module:
    from hoca.features.backbones.i3d import I3D

    return I3D()


def _soundnet() -> nn.Module:
    from hoca.features.backbones.soundnet import SoundNet

    return SoundNet()


def _inception_resnet() -> nn.Module:
    from hoca.features.backbones.inception_resnet import InceptionResNetV2

    return InceptionResNetV2()


def _vggish() -> nn.Module:
    from hoca.features.backbones.vggish import VGGish

    return VGGish()


def _log_mel() -> nn.Module:
    from hoca.features.backbones.logmel import LogMel

    return LogMel()


BACKBONES: dict[str, Backbone] = {
    each.name: each
    for each in (
        Images(
            name="efficientnet-lite2",
            width=1280,
            side=260,
            asset="efficientnet-lite2",
            build=lambda: _efficientnet(2),
        ),
        Images(
            name="efficientnet-lite1",
            width=1280,
            side=240,
            asset="efficientnet-lite1",
            build=lambda: _efficientnet(1),
        ),
        Images(
            name="efficientnet-lite0",
            width=1280,
            side=224,
            asset="efficientnet-lite0",
            build=lambda: _efficientnet(0),
        ),
        Motion(name="i3d-kinetics-400", width=1024, asset="i3d-kinetics-400", build=_i3d, bfloat16=True),
        Sound(
            name="soundnet-8",
            width=1024,
            rate=22050,
            shortest=30_001,
            step_seconds=32_768 / 22050,
            begins=-26_385.5 / 22050,
            needs=6_383.5 / 22050,
            asset="soundnet-8",
            build=_soundnet,
        ),
        Sound(name="log-mel", width=128, rate=16000, step_seconds=0.96, needs=0.975, build=_log_mel),
        Images(
            name="inception-resnet-v2",
            width=1536,
            side=299,
            asset="inception-resnet-v2",
            build=_inception_resnet,
        ),
        Motion(name="i3d-imagenet", width=1024, asset="i3d-imagenet", build=_i3d, bfloat16=True),
        Sound(name="vggish", width=128, rate=16000, step_seconds=0.96, needs=0.975, asset="vggish", build=_vggish),
        LightImage(name="light-image", width=light.IMAGE_WIDTH),
        LightMotion(name="light-motion", width=light.MOTION_WIDTH),
        LightAudio(name="light-audio", width=light.AUDIO_WIDTH, rate=light.RATE),
    )
}


def backbone(name: object, modality: str) -> Backbone:
    """The backbone that a specification names, `hf:FOLDER` among them."""
    if isinstance(name, str) and name in BACKBONES:
        return BACKBONES[name]
    if isinstance(name, str) and name.startswith("hf:"):
        from hoca.features.backbones.hugging_face import from_folder

        return from_folder(name)
    hint = nearest(name, BACKBONES) if isinstance(name, str) else f"known: {', '.join(BACKBONES)}"
    raise UserError(f"feature specification: {modality} wants backbone {name!r}: {hint}")
