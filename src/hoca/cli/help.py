"""The help pages: commands in groups, keys below the options, and a hint where a key was written as an option."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import typer

from hoca.errors import UserError
from hoca.options import Key

VIDEOS, MODELS, DATA, MEASUREMENTS = "Videos", "Models", "Data", "Measurements"  # the groups, in their order
ClickException: type[Exception] = typer.BadParameter.__mro__[2]  # newer typer keeps click to itself


class Command(typer.core.TyperCommand):
    """Names arguments and values as usage lines do, without the types that Python has for them."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [pieces[0], *(re.sub(r"^\{(.*)\}", r"\1", piece).upper() for piece in pieces[1:])]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                records[parameter.param_type_name].append((_readable(record[0], parameter), record[1]))
        for kind, rows in records.items():
            if rows:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(rows)


def _readable(shown: str, parameter: Any) -> str:
    """`--out <path>` is `--out OUT`, as choices stay what they are; an argument is its name alone."""
    if parameter.param_type_name == "argument":
        return re.sub(r" <.*>$", "", shown).upper()
    return re.sub(r"<([^|]*)>$", parameter.name.upper(), shown)


class CommandGroup(typer.core.TyperGroup):
    """Shows its commands by their help panels, as plain text; without arguments it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in (VIDEOS, MODELS, DATA, MEASUREMENTS)}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panel = command.rich_help_panel if isinstance(command.rich_help_panel, str) else "Commands"
            panels.setdefault(panel, []).append((name, command.get_short_help_str(limit=120)))
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


class Commands(typer.Typer):
    """A group of commands with such help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=CommandGroup, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, *, cls: Any = Command, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=cls, **options)


class KeyCommand(Command):
    """A command with arguments KEY=VALUE: its help ends with the keys, which are imported for that alone."""

    def keys(self) -> Iterable[Key]:
        raise NotImplementedError

    def keys_as_text(self) -> str:
        return "\n".join(["Keys, with their defaults:", *(f"  {key}" for key in self.keys())])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write("\n" + self.keys_as_text() + "\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except ClickException as error:
            option = getattr(error, "option_name", None)
            if option is None or ctx.resilient_parsing:
                raise
            name = option.lstrip("-").replace("-", "_")
            if name not in {key.name for key in self.keys()}:
                raise
            raise UserError(
                f"there is no option {option}: {name} is a key, write {name}={_value(option, given)}"
            ) from None


def _value(option: str, given: list[str]) -> str:
    """What was given with an option, as its next argument or after `=`."""
    for place, argument in enumerate(given):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and place + 1 < len(given):
            return given[place + 1]
    return "VALUE"
