"""From a clip, decoded or rendered, to the features that a specification asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hoca import media
from hoca.errors import UserError
from hoca.features.backbones import Backbone, backbone
from hoca.media.request import DecodedVideo

if TYPE_CHECKING:
    from hoca.features.extractor import Extractor


@dataclass(frozen=True)
class Extracted:
    features: dict[str, np.ndarray]  # modality -> float32 [T, width]
    absent: dict[str, str]  # modality -> why
    duration: float  # seconds
    preview: media.Preview | None = None  # where it was asked for


def extract(path: Path | str, specification: Mapping[str, Any]) -> Extracted:
    """The features of a video file. An `Extractor` kept for several files loads its networks once."""
    from hoca.features.extractor import Extractor

    with Extractor(specification) as extractor:
        return extractor.extract(path)


def of_clip(clip: media.Clip, specification: Mapping[str, Any] | Extractor) -> Extracted:
    """The same features of a clip in memory, from backbones that take frames as they are."""
    from hoca.features.extractor import Extractor

    extractor = specification if isinstance(specification, Extractor) else Extractor(specification)
    pictures = {}
    for name, found in extractor.backbones.items():
        wanted = found.pictures(extractor.specification[name])
        if wanted is None:
            if clip.waveform is not None and clip.rate != found.rate:
                raise UserError(f"{found.name} takes sound at {found.rate} samples a second, the clip has {clip.rate}")
        elif wanted.size is not None or not callable(wanted.pick):
            raise UserError(f"{found.name} takes scaled frames of a file: write the clip to a file and extract that")
        else:
            picked = clip.frames[list(wanted.pick(len(clip.frames)))]
            shrink = wanted.transform
            pictures[name] = np.stack([shrink(frame) for frame in picked]) if shrink else picked
    decoded = DecodedVideo(pictures, {}, len(clip.frames), clip.duration, clip.waveform, clip.rate)
    return extractor.features([decoded])[0]


def check(specification: Mapping[str, Any]) -> dict[str, Backbone]:
    """The backbone of each modality that is no difference of another; an error names what cannot be followed."""
    chosen = {}
    for name, how in specification.items():
        if isinstance(how, Mapping) and (of := how.get("difference")) is not None:
            if of not in specification or "difference" in specification[of]:
                raise UserError(f"feature specification: {name} is a difference of {of!r}, which it does not have")
            continue
        chosen[name] = backbone(how.get("backbone") if isinstance(how, Mapping) else None, name)
        chosen[name].check(how, name)
    return chosen
