"""Trees of tensors: what a captioner remembers of a video, and its state after some words.

A tree is a tensor, or a dictionary, a tuple, a list or a dataclass of trees. Anything else in it is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

Tree = TypeVar("Tree")


def map_tensors(function: Callable[..., Tensor], tree: Tree, *others: Tree) -> Tree:
    """The tree with `function` applied to each tensor, together with those at the same place of the `others`."""
    return _map(function, tree, *others)


def _map(function: Callable[..., Tensor], tree: Any, *others: Any) -> Any:
    if isinstance(tree, Tensor):
        return function(tree, *others)
    if isinstance(tree, Mapping):
        return {key: _map(function, each, *(other[key] for other in others)) for key, each in tree.items()}
    if isinstance(tree, tuple | list):
        made = [_map(function, *each) for each in zip(tree, *others, strict=True)]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    if is_dataclass(tree) and not isinstance(tree, type):
        names = [each.name for each in fields(tree)]
        return replace(tree, **{n: _map(function, *(getattr(each, n) for each in (tree, *others))) for n in names})
    return tree


def tensors(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in its order."""
    found: list[Tensor] = []

    def take(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _map(take, tree)
    return found


def shape_of(tree: Any) -> Hashable:
    """All that two trees share into which the same tensors fit: names, constants, shapes and types."""
    if isinstance(tree, Tensor):
        return tuple(tree.shape), tree.dtype
    if isinstance(tree, Mapping):
        return tuple((key, shape_of(each)) for key, each in tree.items())
    if isinstance(tree, tuple | list):
        return tuple(map(shape_of, tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return tuple(shape_of(getattr(tree, each.name)) for each in fields(tree))
    return tree
