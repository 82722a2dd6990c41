"""Dataclasses filled from YAML values and `key=value` arguments, each key, type and bound checked by name."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from hoca.errors import UserError, nearest

COMMAND_LINE = "the command line"
MOST_VALUES = 100_000  # in one YAML text

T = TypeVar("T")


def option(default: Any, about: str, *, least: float | None = None, below: float | None = None) -> Any:
    """A field that users set: its default, what it means, and its bounds, which `check_bounds` holds it to."""
    metadata = {"about": about, "least": least, "below": below}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def about(cls: type) -> dict[str, str]:
    """What each option of a dataclass means; fields that are no options are left out."""
    return {f.name: f.metadata["about"] for f in fields(cls) if "about" in f.metadata}


@dataclass(frozen=True)
class Key:
    """An option as a help page shows it."""

    name: str
    default: str
    about: str  # what it means, and its choices

    def __str__(self) -> str:
        return f"{self.name}={self.default}  {self.about}"


def keys_of(cls: type) -> list[Key]:
    """The options of a dataclass, in their order."""
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


def check_bounds(instance: Any) -> None:
    """Refuse a value outside the bounds of its option, and a choice that there is not."""
    check_values(type(instance), {each.name: getattr(instance, each.name) for each in fields(instance)})


def check_values(cls: type, values: Mapping[str, Any], where: str = "") -> None:
    """The same of some values of the dataclass `cls`, before there is an instance; an error says `where` they stand."""
    hints, start = get_type_hints(cls), f"{where}: " if where else ""
    for each in fields(cls):
        if each.name not in values:
            continue
        value, least, below = values[each.name], each.metadata.get("least"), each.metadata.get("below")
        if get_origin(hints[each.name]) is Literal and value not in get_args(hints[each.name]):
            known = [str(choice) for choice in get_args(hints[each.name])]
            raise UserError(f"{start}{each.name}={value!r} is unknown: {nearest(str(value), known)}")
        if least is None:
            continue
        for name, number in value.items() if isinstance(value, Mapping) else ((None, value),):
            if not number >= least or (below is not None and not number < below):
                bounds = f"at least {least:g}" + ("" if below is None else f" and below {below:g}")
                key = each.name if name is None else f"{each.name}.{name}"
                raise UserError(f"{start}{key}={shortened(number)} must be {bounds}")


def make(cls: type[T], *sources: tuple[str, Mapping[str, Any]]) -> T:
    """An instance of the dataclass `cls` from (where, values) pairs; a later one overrides an earlier one."""
    chosen: dict[str, Any] = {}
    for where, values in sources:
        chosen |= convert(cls, values, where)
    return cls(**chosen)


def convert(cls: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values as the types of the fields of `cls`; an error names the key, and `where` it stands."""
    hints = get_type_hints(cls)
    chosen = {}
    for key, value in values.items():
        if key not in hints:
            raise UserError(f"{where}: there is no key {shortened(key)}: {nearest(str(key), hints)}")
        try:
            chosen[key] = _convert(value, hints[key])
        except (TypeError, ValueError) as error:
            raise UserError(f"{where}: {key}={shortened(value)} must be {error}") from None
    return chosen


def encodable(text: str) -> bool:
    """False for half of a surrogate pair, which JSON and YAML can express and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shortened(value: Any) -> str:
    """A value for a message, however large it is."""
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to print some
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str | int | float | bool | None):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a {type(value).__name__}" if not isinstance(value, list | tuple) or len(value) > 8 else _listed(value)


def _listed(values: list[Any] | tuple[Any, ...]) -> str:
    inner = [
        shortened(each) if not isinstance(each, list | tuple | dict) else f"a {type(each).__name__}" for each in values
    ]
    return f"[{', '.join(inner)}]"


def from_arguments(cls: type[T], arguments: Iterable[str] | None) -> T:
    """An instance of the dataclass `cls` from the `key=value` arguments of the command line."""
    return make(cls, (COMMAND_LINE, read_arguments(arguments or ())))


def load_yaml(text: str, check: Callable[[yaml.Node], None] = lambda node: None) -> Any:
    """The value of a YAML text; a few lines of aliases that stand for a huge one are no YAML here."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        check(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count(node: yaml.Node, counted: dict[yaml.Node, int]) -> int:
    """How many values a node stands for, each alias written out."""
    if node not in counted:
        counted[node] = MOST_VALUES  # of an alias within itself
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        inner = node.value if isinstance(node, yaml.SequenceNode) else [each for pair in pairs for each in pair]
        counted[node] = 1 + sum(_count(each, counted) for each in inner)
    if counted[node] > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    return counted[node]


def read_arguments(arguments: Iterable[str]) -> dict[str, Any]:
    """`key=value` arguments; values are read as YAML does."""
    values = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise UserError(f"the argument {shortened(argument)} is not of the form key=value")
        try:
            values[key] = load_yaml(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as the 31st of a month without one
            raise UserError(f"the argument {shortened(argument)} has no value that YAML can read") from error
    return values


def _convert(value: Any, hint: Any) -> Any:
    """`value` as the type `hint`, or an error that says what was expected."""
    origin, choices = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Literal:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value
    if origin in (Union, types.UnionType):
        inner = next(choice for choice in choices if choice is not type(None))
        return None if value is None else _convert(value, inner)
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise TypeError(f"a list, like [{'1, 2' if choices[0] is int else 'image, motion'}]")
        return origin(_convert(each, choices[0]) for each in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError("a table of names and values")
        return {_convert(key, choices[0]): _convert(each, choices[1]) for key, each in value.items()}
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
    if hint is str and ("\0" in value or not encodable(value)):  # no name of a file, and no line of a log
        raise ValueError("text without NUL and half characters")
    return value
