"""The keys of a recipe and what they mean, from the dataclasses that check them: for the help and for the docs."""

from __future__ import annotations

from hoca.models import ModelConfig, entry, names
from hoca.options import Key, keys_of
from hoca.training.recipe import DEFAULT_MODEL, SECTIONS, Recipe


def keys() -> dict[str, list[Key]]:
    """The keys at the top and of each section; `model` has those that all captioners share."""
    found = {"": keys_of(Recipe)}
    for section, cls in SECTIONS.items():
        found[section] = keys_of(cls) + (keys_of(ModelConfig) if section == "model" else [])
    return found


def model_keys() -> dict[tuple[str, ...], list[Key]]:
    """Options that only some captioners have, or have with another default: names that share a `Config` → its keys."""
    by_config: dict[type[ModelConfig], list[str]] = {}
    for name in names():
        by_config.setdefault(entry(name).model.Config, []).append(name)
    shared = keys_of(ModelConfig)
    return {tuple(named): [key for key in keys_of(config) if key not in shared] for config, named in by_config.items()}


def as_text() -> str:
    """All keys, a line each, for a terminal."""
    lines = [f"Keys (model: those of all models; of {DEFAULT_MODEL} and the others below):"]
    for section, listed in keys().items():
        lines += _lines(f"{section}:" if section else "at the top:", listed)
    for named, listed in model_keys().items():
        lines += _lines(f"model, of {', '.join(named)}:", listed)
    return "\n".join(lines)


def _lines(title: str, listed: list[Key]) -> list[str]:
    return ["", f"  {title}", *(f"    {key}" for key in listed)]
