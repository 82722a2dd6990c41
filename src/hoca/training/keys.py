"""The keys of a recipe and what they mean, from the dataclasses that check them: for the help and for the docs."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hoca.models import ModelConfig, entry, names
from hoca.training.recipe import DEFAULT_MODEL, SECTIONS, Recipe


@dataclass(frozen=True)
class Key:
    name: str
    default: str
    about: str


def keys() -> dict[str, list[Key]]:
    """The keys at the top and of each section; `model` has those that all captioners share."""
    found = {"": _keys(Recipe)}
    for section, cls in SECTIONS.items():
        found[section] = _keys(cls) + (_keys(ModelConfig) if section == "model" else [])
    return found


def model_keys() -> dict[tuple[str, ...], list[Key]]:
    """The options of a captioner's own: names that share a `Config` → its keys."""
    by_config: dict[type[ModelConfig], list[str]] = {}
    for name in names():
        by_config.setdefault(entry(name).model.Config, []).append(name)
    shared = {key.name for key in _keys(ModelConfig)}
    return {
        tuple(named): [key for key in _keys(config) if key.name not in shared] for config, named in by_config.items()
    }


def as_text() -> str:
    """All keys, a line each, for a terminal."""
    lines = [f"Keys (model: those of all models; of {DEFAULT_MODEL} and the others below):"]
    for section, listed in keys().items():
        lines += _lines(f"{section}:" if section else "at the top:", listed)
    for named, listed in model_keys().items():
        lines += _lines(f"model, of {', '.join(named)}:", listed)
    return "\n".join(lines)


def _lines(title: str, listed: list[Key]) -> list[str]:
    return ["", f"  {title}", *(f"    {key.name}={key.default}  {key.about}" for key in listed)]


def _keys(cls: type) -> list[Key]:
    hints = get_type_hints(cls)
    return [
        Key(each.name, _default(each), each.metadata["about"] + _choices(hints[each.name]))
        for each in fields(cls)
        if "about" in each.metadata
    ]


def _default(each: Field[Any]) -> str:
    factory: Any = each.default_factory
    value: Any = each.default if each.default is not MISSING else factory()
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(str, value))}]"
    if value == {}:
        return "80" if each.name == "max_steps" else "{}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _choices(hint: Any) -> str:
    return f" ({' | '.join(get_args(hint))})" if get_origin(hint) is Literal else ""
