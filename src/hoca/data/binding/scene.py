"""What happens in a clip: things that appear one after the other, and a sound that names one of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hoca.errors import UserError

SOUND_OF = {
    "circle": "bell",
    "square": "drum",
    "triangle": "horn",
    "star": "whistle",
    "cross": "buzzer",
    "ring": "siren",
}
KINDS = tuple(SOUND_OF)
SOUNDS = tuple(SOUND_OF.values())
COLOURS = {
    "red": (225, 35, 35),
    "green": (40, 170, 50),
    "blue": (45, 80, 235),
    "yellow": (240, 225, 50),
    "cyan": (40, 215, 225),
    "purple": (150, 50, 190),
    "pink": (250, 150, 195),
    "white": (240, 240, 240),
}
MOTIONS = ("left", "right", "up", "down", "growing", "shrinking", "shaking")
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class BindingOptions:
    """Size and difficulty of the dataset; the same options give the same dataset."""

    train: int = 2000  # clips to learn from
    validation: int = 200  # clips to choose the checkpoint by
    test: int = 400  # clips to report
    captions: int = 5  # phrasings per clip
    distractors: int = 1  # things that are seen but not heard
    overlap: float = 0.0  # part of a thing's time (0 to 0.9) that it may share with its neighbours
    noise: float = 0.03  # of pictures (standard deviation, 1 = white) and, a tenth of it, of sound
    silent: float = 0.1  # share of clips without sound
    seconds: float = 4.0  # length of a clip
    fps: int = 10  # pictures per second
    picture: int = 64  # width and height in pixels, even
    seed: int = 0

    def __post_init__(self) -> None:
        limits: dict[str, tuple[float, float]] = {
            **dict.fromkeys(SPLITS, (0, 99999)),
            "captions": (1, 6),
            "distractors": (0, 5),
            "overlap": (0, 0.9),
            "noise": (0, 0.2),
            "silent": (0, 1),
            "seconds": (1, 60),
            "fps": (4, 60),
            "picture": (32, 512),
            "seed": (0, 2**63),
        }
        for field in fields(self):
            value, (least, most) = getattr(self, field.name), limits[field.name]
            if isinstance(value, bool) or not least <= value <= most:
                raise UserError(f"binding option {field.name}={value}: give {least} to {most}")
            if field.type == "int" and value != int(value):
                raise UserError(f"binding option {field.name}={value}: give a whole number")
        if self.picture % 2:
            raise UserError(f"binding option picture={self.picture}: give an even number, as H.264 needs one")


@dataclass(frozen=True)
class Thing:
    kind: str
    colour: str
    motion: str
    start: float  # seconds
    end: float
    x: float  # of its centre halfway through, 0 = left edge, 1 = right edge
    y: float  # 0 = top
    radius: float  # 1 = width of the picture


@dataclass(frozen=True)
class Sound:
    name: str
    start: float  # seconds, independent of when the thing is seen
    seconds: float
    pitch: float  # factor


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]  # in the order in which they appear
    told: int  # number of the thing that the captions tell of: the one heard, the first one seen if there is no sound
    sound: Sound | None
    grain: int  # seed of background, noise and timbre

    @property
    def attributes(self) -> dict[str, str]:
        thing = self.things[self.told]
        told = {"colour": thing.colour, "kind": thing.kind, "motion": thing.motion}
        return told | ({"sound": self.sound.name} if self.sound else {})


def generator(options: BindingOptions, split: str, number: int) -> np.random.Generator:
    """Every clip has a seed of its own, made of the dataset's seed, its split and its number."""
    return np.random.default_rng([options.seed, SPLITS.index(split), number])


def draw(rng: np.random.Generator, options: BindingOptions) -> Scene:
    """A scene whose things differ in kind, colour and motion; any of them may be the one that is heard."""
    count = options.distractors + 1
    kinds, colours, motions = (
        [names[number] for number in rng.permutation(len(names))[:count]] for names in (KINDS, tuple(COLOURS), MOTIONS)
    )
    things = tuple(
        Thing(kind, colour, motion, start, end, *_place(rng, motion))
        for kind, colour, motion, (start, end) in zip(kinds, colours, motions, _times(rng, count, options), strict=True)
    )
    heard = int(rng.integers(count))
    length = min(1.2, 0.4 * options.seconds) * rng.uniform(0.8, 1.0)
    sound = Sound(SOUND_OF[kinds[heard]], rng.uniform(0, options.seconds - length), length, rng.uniform(0.94, 1.06))
    silent = rng.random() < options.silent
    return Scene(things, 0 if silent else heard, None if silent else sound, int(rng.integers(2**62)))


def _times(rng: np.random.Generator, count: int, options: BindingOptions) -> list[tuple[float, float]]:
    """Start and end of each thing in order: what remains of the clip is shared out at random as gaps between them."""
    lengths = options.seconds / count * rng.uniform(0.6, 0.8, count)
    gaps = rng.dirichlet(np.ones(count + 1)) * (options.seconds - lengths.sum())
    starts = np.cumsum(gaps[:-1]) + np.concatenate([[0.0], np.cumsum(lengths)[:-1]])
    times = []
    for start, length in zip(starts, lengths, strict=True):
        reach = options.overlap * length / 2 * rng.random()
        times.append((max(0.0, float(start - reach)), min(options.seconds, float(start + length + reach))))
    return times


def _place(rng: np.random.Generator, motion: str) -> tuple[float, float, float]:
    """A place halfway through the motion and a radius that keep the thing inside the picture throughout."""
    radius = rng.uniform(0.14, 0.18)
    along, across = rng.uniform(0.46, 0.54), rng.uniform(0.22, 0.78)
    if motion in ("left", "right"):
        return along, across, radius
    if motion in ("up", "down"):
        return across, along, radius
    if motion == "shaking":
        return rng.uniform(0.3, 0.7), across, radius
    return rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7), radius
