"""Clips that are tried with one click: the demo's real ones where they were fetched, else two that are rendered."""

from __future__ import annotations

import shutil
from pathlib import Path

from hoca import assets
from hoca.data import binding

DEMO = {"demo-bikes": "bikes.mp4", "demo-bunny": "bunny.mp4"}  # in the order of their names


def examples(folder: Path) -> list[Path]:
    """Example clips, copied to or made in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    here = {row.asset.name: row.file for row in assets.listing() if row.file}
    found = [Path(shutil.copy(here[name], folder / file)) for name, file in DEMO.items() if name in here]
    return found or _rendered(folder)


def _rendered(folder: Path) -> list[Path]:
    options = binding.BindingOptions(train=0, validation=0, test=2, silent=0, seed=1)
    made = binding.prepare(folder / "binding", options, videos=True)
    return sorted((made / "videos").glob("*.mp4"))
