"""A procedural dataset: which of the things seen is the one heard? Only seeing and hearing together can tell."""

from hoca.data.binding.prepare import clips, prepare
from hoca.data.binding.render import render
from hoca.data.binding.scene import BindingOptions, Scene, draw, generator
from hoca.data.binding.truth import Moments, clock, moments, read_options, scene_of
from hoca.data.binding.words import LEXICON, attribute_accuracy, right_words, sentences

__all__ = [
    "LEXICON",
    "BindingOptions",
    "Moments",
    "Scene",
    "attribute_accuracy",
    "clips",
    "clock",
    "draw",
    "generator",
    "moments",
    "prepare",
    "read_options",
    "render",
    "right_words",
    "scene_of",
    "sentences",
]
