"""The sentences about a scene, and how many of their attribute words a captioner gets right."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from hoca.data.binding.scene import COLOURS, KINDS, MOTIONS, SOUNDS, Scene
from hoca.errors import UserError

LEXICON: dict[str, tuple[str, ...]] = {"colour": tuple(COLOURS), "kind": KINDS, "motion": MOTIONS, "sound": SOUNDS}

# In every phrasing the colour comes before kind and sound: whoever says it must have put picture and sound together.
HEARD = (
    "a {colour} {kind} is {moving} while a {sound} is heard",
    "there is a {colour} {kind} {moving} to the sound of a {sound}",
    "a {colour} {kind} that sounds like a {sound} is {moving}",
    "something {colour} is {moving} it is a {kind} and it sounds like a {sound}",
    "{moving} on the screen is a {colour} {kind} with the sound of a {sound}",
    "the {colour} thing that sounds like a {sound} is a {kind} and it is {moving}",
)
SILENT = (
    "a {colour} {kind} is {moving} without a sound",
    "there is a {colour} {kind} {moving} in silence",
    "a {colour} {kind} is {moving}",
    "something {colour} is {moving} it is a {kind}",
    "{moving} on the screen is a {colour} {kind}",
    "the {colour} thing is a {kind} and it is {moving}",
)
DIRECTIONS = ("left", "right", "up", "down")


def sentences(scene: Scene, rng: np.random.Generator, count: int) -> list[str]:
    """`count` different phrasings about the thing that the scene tells of."""
    told = scene.attributes
    moving = f"moving {told['motion']}" if told["motion"] in DIRECTIONS else told["motion"]
    phrasings = HEARD if "sound" in told else SILENT
    return [phrasings[number].format(**told, moving=moving) for number in rng.permutation(len(phrasings))[:count]]


def attribute_accuracy(candidates: Mapping[str, str], attributes: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    """Per attribute the share of videos whose caption names it rightly, as `right_words` has it.

    A video that lacks an attribute (the sound of a silent clip) does not count for it.
    """
    right: dict[str, list[bool]] = {}
    for of_video in right_words(candidates, attributes).values():
        for attribute, named in of_video.items():
            right.setdefault(attribute, []).append(named)
    return {attribute: sum(right[attribute]) / len(right[attribute]) for attribute in LEXICON if attribute in right}


def right_words(
    candidates: Mapping[str, str], attributes: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, bool]]:
    """Of every video, whether its caption names each of its attributes rightly.

    The first word of the caption out of the attribute's lexicon counts; none, or no caption at all, is wrong.
    """
    right: dict[str, dict[str, bool]] = {}
    for id, truth in attributes.items():
        words, right[id] = re.findall(r"[a-z]+", candidates.get(id, "").lower()), {}
        for attribute, value in truth.items():
            if attribute not in LEXICON:
                raise UserError(f"video {id}: unknown attribute {attribute!r}, known are {', '.join(LEXICON)}")
            named = next((word for word in words if word in LEXICON[attribute]), None)
            right[id][attribute] = named == value
    return right
