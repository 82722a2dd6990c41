"""Captioners by name: a class, the options that its name stands for, and where it comes from."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from torch.overrides import TorchFunctionMode

from hoca.errors import UnknownName, nearest
from hoca.models.interface import CaptionModel
from hoca.options import shortened
from hoca.text import Vocabulary

# What an implementation was made from. A: official code. B: code or notes of third parties. C: the abstract and memory,
# so it is a system in that style. A/C: parts are A, others C. Empty: it is its own source, or no system of others.
Fidelity = Literal["A", "B", "C", "A/C", ""]
Model = TypeVar("Model", bound=type[CaptionModel])


@dataclass(frozen=True)
class Entry:
    name: str
    model: type[CaptionModel]
    about: str  # one line
    source: str  # who proposed it
    defaults: Mapping[str, Any]  # options that the name stands for
    fidelity: Fidelity = ""

    @property
    def in_that_style(self) -> bool:
        """Whether some of it is made from memory: its results are no verdict on the published system."""
        return "C" in self.fidelity


_entries: dict[str, Entry] = {}


def register(
    name: str, *, source: str, about: str, fidelity: Fidelity = "", **defaults: Any
) -> Callable[[Model], Model]:
    """Make `create(name, ...)` build the class that this decorates, with `defaults` as options. Names may share one.

    fidelity: how close the implementation is to the system of the source.
    """

    def add(model: Model) -> Model:
        if name in _entries:
            raise ValueError(f"there is a model {name!r} already")
        _entries[name] = Entry(name, model, about, source, defaults, fidelity)
        return model

    return add


def create(name: str, modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> CaptionModel:
    """The named captioner for features of the given widths.

    Options are those of the model's `Config`, such as `hidden=256`; of the paper's captioners also `orders=(1, 2, 4)`
    or `groups=[("image", "motion"), ...]` in place of the orders that the name stands for.
    """
    found = entry(name)
    return _build(found, found.model.Config.of(modalities, **{**found.defaults, **options}), vocabulary)


def restore(name: str, config: Mapping[str, Any], vocabulary: Vocabulary) -> CaptionModel:
    """The named captioner from what `config.to_json()` gave; its weights, which are to be loaded, hold anything."""
    found = entry(name)
    with _NoInitialization():
        return _build(found, found.model.Config.from_json(config), vocabulary)


def names(pattern: str = "*") -> list[str]:
    """The registered names, in the order of registration, that match a shell pattern such as `l-*`."""
    return [name for name in _entries if fnmatch.fnmatch(name, pattern)]


def entry(name: str) -> Entry:
    """What is registered under a name."""
    if not isinstance(name, str) or name not in _entries:
        raise UnknownName(f"there is no model {shortened(name)}: {nearest(str(name), _entries)}")
    return _entries[name]


def _build(found: Entry, config: Any, vocabulary: Vocabulary) -> CaptionModel:
    model = found.model(config, vocabulary)
    model.name = found.name
    return model


class _NoInitialization(TorchFunctionMode):
    """Leaves new parameters as they are: random numbers for each cost more than reading a checkpoint, and on the meta
    device torch would import its compiler for them, which takes longer than importing torch itself."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("uniform_", "normal_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
