"""Models by name: the paper's nine, each a line of orders and a form."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

from hoca.data.vocabulary import Vocabulary
from hoca.errors import UserError, nearest
from hoca.models.captioner import Captioner
from hoca.models.config import configure

Constructor = Callable[..., Captioner]
_constructors: dict[str, Constructor] = {}


def create(name: str, modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    """The named captioner for features of the given widths.

    Options are the fields of `Config`, and `orders=(1, 2, 4)` or `groups=[("image", "motion"), ...]` in place of the
    orders that the name stands for.
    """
    if name not in _constructors:
        raise UserError(f"there is no model {name!r}: {nearest(name, _constructors)}")
    return _constructors[name](modalities, vocabulary, **options)


def names(pattern: str = "*") -> list[str]:
    """The registered names, in the paper's order, that match a shell pattern such as `l-*`."""
    return [name for name in _constructors if fnmatch.fnmatch(name, pattern)]


def register(constructor: Constructor) -> Constructor:
    """Make `create("my-model", ...)` call the function `my_model`."""
    _constructors[constructor.__name__.replace("_", "-")] = constructor
    return constructor


def _captioner(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return Captioner(configure(modalities, **options), vocabulary)


@register
def hoca_u(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "exact", "orders": (1,)} | options)


@register
def hoca_b(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "exact", "orders": (2,)} | options)


@register
def l_hoca_b(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "low-rank", "orders": (2,)} | options)


@register
def hoca_t(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "exact", "orders": (3,)} | options)


@register
def l_hoca_t(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "low-rank", "orders": (3,)} | options)


@register
def hoca_ub(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "exact", "orders": (1, 2)} | options)


@register
def l_hoca_ub(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "low-rank", "orders": (1, 2)} | options)


@register
def hoca_ubt(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "exact", "orders": (1, 2, 3)} | options)


@register
def l_hoca_ubt(modalities: Mapping[str, int], vocabulary: Vocabulary, **options: Any) -> Captioner:
    return _captioner(modalities, vocabulary, **{"form": "low-rank", "orders": (1, 2, 3)} | options)
