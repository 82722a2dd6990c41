"""The backbones by name. Their networks are imported when they are built: this file needs no torch."""

from __future__ import annotations

from hoca.errors import UnknownName, nearest
from hoca.features import light
from hoca.features.backbones.kinds import Backbone, ImageBackbone, MotionBackbone, SoundBackbone
from hoca.features.backbones.plain import LightAudio, LightImage, LightMotion
from hoca.networks import NETWORKS

__all__ = ["BACKBONES", "Backbone", "backbone"]


BACKBONES: dict[str, Backbone] = {
    each.name: each
    for each in (
        ImageBackbone(
            name="dinov2-small",
            width=768,
            side=224,
            asset="dinov2-small",
            build=NETWORKS["dinov2-small"],
            bfloat16=True,
        ),
        ImageBackbone(
            name="efficientnet-lite2",
            width=1280,
            side=260,
            asset="efficientnet-lite2",
            build=NETWORKS["efficientnet-lite2"],
        ),
        ImageBackbone(
            name="efficientnet-lite1",
            width=1280,
            side=240,
            asset="efficientnet-lite1",
            build=NETWORKS["efficientnet-lite1"],
        ),
        ImageBackbone(
            name="efficientnet-lite0",
            width=1280,
            side=224,
            asset="efficientnet-lite0",
            build=NETWORKS["efficientnet-lite0"],
        ),
        MotionBackbone(
            name="i3d-kinetics-400",
            width=1024,
            asset="i3d-kinetics-400",
            build=NETWORKS["i3d-kinetics-400"],
            bfloat16=True,
        ),
        SoundBackbone(
            name="soundnet-8",
            width=1024,
            rate=22050,
            shortest=30_001,
            step_seconds=32_768 / 22050,
            begins=-26_385.5 / 22050,
            needs=6_383.5 / 22050,
            asset="soundnet-8",
            build=NETWORKS["soundnet-8"],
        ),
        SoundBackbone(name="log-mel", width=128, rate=16000, step_seconds=0.96, needs=0.975, build=NETWORKS["log-mel"]),
        ImageBackbone(
            name="inception-resnet-v2",
            width=1536,
            side=299,
            asset="inception-resnet-v2",
            build=NETWORKS["inception-resnet-v2"],
        ),
        MotionBackbone(
            name="i3d-imagenet", width=1024, asset="i3d-imagenet", build=NETWORKS["i3d-imagenet"], bfloat16=True
        ),
        SoundBackbone(
            name="vggish",
            width=128,
            rate=16000,
            step_seconds=0.96,
            needs=0.975,
            asset="vggish",
            build=NETWORKS["vggish"],
        ),
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
    raise UnknownName(f"feature specification: there is no {modality} backbone {name!r}: {hint}")
