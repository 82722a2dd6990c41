"""Captioners built on `hoca.ops`: one short file per part of the paper, one registry of names."""

from hoca.models.captioner import Attention, Captioner, Memory
from hoca.models.config import Config, Group
from hoca.models.registry import create, names, register

__all__ = ["Attention", "Captioner", "Config", "Group", "Memory", "create", "names", "register"]
