"""Dataclasses filled from YAML values and `key=value` arguments, each key and type checked by name."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from hoca.errors import UserError, nearest

COMMAND_LINE = "the command line"

T = TypeVar("T")


def make(cls: type[T], *sources: tuple[str, Mapping[str, Any]]) -> T:
    """An instance of the dataclass `cls` from (where, values) pairs; a later one overrides an earlier one."""
    hints = get_type_hints(cls)
    chosen: dict[str, Any] = {}
    for where, values in sources:
        for key, value in values.items():
            if key not in hints:
                raise UserError(f"{where}: there is no key {key!r}: {nearest(str(key), hints)}")
            try:
                chosen[key] = _convert(value, hints[key])
            except (TypeError, ValueError) as error:
                raise UserError(f"{where}: {key}={value!r} must be {error}") from None
    return cls(**chosen)


def from_arguments(cls: type[T], arguments: Iterable[str] | None) -> T:
    """An instance of the dataclass `cls` from the `key=value` arguments of the command line."""
    return make(cls, (COMMAND_LINE, read_arguments(arguments or ())))


def read_arguments(arguments: Iterable[str]) -> dict[str, Any]:
    """`key=value` arguments; values are read as YAML does."""
    values = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise UserError(f"the argument {argument!r} is not of the form key=value")
        try:
            values[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"the argument {argument!r} has no value that YAML can read") from error
    return values


def _convert(value: Any, hint: Any) -> Any:
    """`value` as the type `hint`, or an error that says what was expected."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value
    if origin in (Union, types.UnionType):
        inner = next(choice for choice in choices if choice is not type(None))
        return None if value is None else _convert(value, inner)
    if origin is list:
        if not isinstance(value, list):
            raise TypeError(f"a list, like [{'1, 2' if choices[0] is int else 'image, motion'}]")
        return [_convert(each, choices[0]) for each in value]
    if hint is float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # YAML reads 1e-4 as text
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise TypeError("a number")
        return number
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise TypeError({int: "a whole number", bool: "true or false", str: "text"}[hint])
    return value
