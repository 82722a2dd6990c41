"""Recipes and their stages, objectives, the training loop, scores of a run."""

from hoca.training import goals  # registers its objectives
from hoca.training.recipe import Recipe, read_recipe
from hoca.training.stages import train

__all__ = ["Recipe", "goals", "read_recipe", "train"]
