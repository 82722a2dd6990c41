"""When the thing that a clip's captions tell of is seen and heard: where attention should look."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from hoca.data.binding.prepare import RECORD
from hoca.data.binding.scene import SPLITS, BindingOptions, Scene, draw, generator
from hoca.errors import UserError
from hoca.media.clock import Clock, Spans


@dataclass(frozen=True)
class Moments:
    """Seconds (start, end) of each modality."""

    told: dict[str, Spans]  # of the thing that the captions tell of
    others: dict[str, Spans]  # of the other things


def read_options(folder: Path | str) -> BindingOptions:
    """What a folder that `prepare` made is made of."""
    path = Path(folder) / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return BindingOptions(**{field.name: record[field.name] for field in fields(BindingOptions)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} does not say how the clips were made ({error}): make the dataset again") from None


def scene_of(options: BindingOptions, id: str) -> Scene:
    """The scene of the clip with this id, drawn again from its seed."""
    split, _, number = id.rpartition("-")
    if split not in SPLITS or not number.isdecimal():
        raise UserError(f"{id} is no clip of the binding dataset: give one such as test-00007")
    return draw(generator(options, split, int(number)), options)


def moments(scene: Scene) -> Moments:
    """When the things are seen, and the sound is heard; a thing that is seen moves all the while."""
    seen = [(thing.start, thing.end) for thing in scene.things]
    told, others = (seen[scene.told],), tuple(seen[: scene.told] + seen[scene.told + 1 :])
    heard = ((scene.sound.start, scene.sound.start + scene.sound.seconds),) if scene.sound else ()
    return Moments({"image": told, "motion": told, "audio": heard}, {"image": others, "motion": others, "audio": ()})


def clock(scene: Scene, options: BindingOptions) -> Clock:
    """Of the rendered clip."""
    frames = max(2, round(options.seconds * options.fps))
    return Clock(frames, frames / options.fps, options.seconds if scene.sound else 0.0)
