"""A procedural dataset: which of the things seen is the one heard? Only seeing and hearing together can tell."""

from hoca.data.binding.prepare import prepare
from hoca.data.binding.render import render
from hoca.data.binding.scene import Options, Scene, draw, generator
from hoca.data.binding.words import LEXICON, attribute_accuracy, sentences

__all__ = ["LEXICON", "Options", "Scene", "attribute_accuracy", "draw", "generator", "prepare", "render", "sentences"]
