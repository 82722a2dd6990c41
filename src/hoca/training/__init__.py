"""Recipes, the training loop, checkpoints, evaluation."""

from hoca.training.checkpoint import Checkpoint, Checkpoints, read_checkpoint, write_checkpoint
from hoca.training.loop import train
from hoca.training.own_videos import with_features
from hoca.training.recipe import Recipe, read_recipe

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Recipe",
    "read_checkpoint",
    "read_recipe",
    "train",
    "with_features",
    "write_checkpoint",
]
