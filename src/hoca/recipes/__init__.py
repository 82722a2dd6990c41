"""The recipes that come with hoca, by name: `hoca train finetune`, `hoca recipes list`."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from hoca.errors import UnknownName, UserError, nearest

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def shipped(name: str) -> Path:
    """The file of a recipe that comes with hoca."""
    if name not in names():
        raise UnknownName(f"there is no recipe {name!r}, nor a YAML file of that name: {nearest(name, names())}")
    return FOLDER / f"{name}.yaml"


def find(recipe: Path | str) -> Path:
    """The file that is meant: a path as it is, a bare name among those that come with hoca."""
    path = Path(recipe)
    if path.is_file():
        return path
    if path.name == str(recipe) and not path.suffix:
        return shipped(path.name)
    if not path.exists() and path.suffix == ".yaml" and path.stem in names():
        raise UserError(f"there is no file {path}: the recipe that comes with hoca is named {path.stem}")
    return path


def about(name: str) -> str:
    """What a recipe is for: the first sentence of its heading."""
    lines = shipped(name).read_text(encoding="utf-8").splitlines()
    heading = takewhile(lambda line: line.startswith("# ") and not line.startswith("#  "), lines)  # then: commands
    return " ".join(line.removeprefix("# ") for line in heading).partition(". ")[0].rstrip(".:")
