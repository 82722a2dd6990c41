"""The recipes that come with hoca: recipes list, show, copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hoca import recipes
from hoca.cli.common import app
from hoca.cli.help import MODELS, Commands
from hoca.errors import UserError
from hoca.files import replacing

recipes_app = Commands(help="Recipes that come with hoca, for `hoca train NAME`.")
app.add_typer(recipes_app, name="recipes", rich_help_panel=MODELS)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that `hoca recipes list` prints.")]


@recipes_app.command("list")
def list_recipes() -> None:
    """Each recipe's name and what it is for.

    \b
    hoca recipes list
    hoca recipes list | grep paper
    """
    width = max(map(len, recipes.names()))
    for name in recipes.names():
        print(f"{name:{width}}  {recipes.about(name)}")


@recipes_app.command()
def show(name: Name) -> None:
    """Print a recipe: every key with a comment.

    \b
    hoca recipes show finetune
    hoca recipes show finetune > mine.yaml
    """
    print(recipes.shipped(name).read_text(encoding="utf-8"), end="")


@recipes_app.command()
def copy(
    name: Name,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; NAME.yaml here by default.")] = None,
) -> None:
    """Copy a recipe to a file of yours, to change it there.

    \b
    hoca recipes copy finetune
    hoca recipes copy finetune --out mine.yaml
    """
    source, target = recipes.shipped(name), out or Path(f"{name}.yaml")
    if target.exists():
        raise UserError(f"{target} is there already: give another name with --out, or delete it")
    with replacing(target) as temporary:
        temporary.write_bytes(source.read_bytes())
    print(f"{target}: train it with hoca train {target}")
