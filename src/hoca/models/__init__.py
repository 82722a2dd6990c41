"""Captioners: one interface, one registry of names, the paper's models and those that it is compared with."""

from hoca.models.config import Group, ModelConfig
from hoca.models.explanation import Explanation, Matrix
from hoca.models.interface import CaptionModel, Decoded, Memory, State, Weighted
from hoca.models.registry import create, entry, names, register, restore

# The paper's names are registered first.
from hoca.models import hoca, baselines, ensemble  # isort: skip
from hoca.models.hoca import Captioner

__all__ = [
    "CaptionModel",
    "Captioner",
    "Decoded",
    "Explanation",
    "Group",
    "Matrix",
    "Memory",
    "ModelConfig",
    "State",
    "Weighted",
    "baselines",
    "create",
    "ensemble",
    "entry",
    "hoca",
    "names",
    "register",
    "restore",
]
