"""docs/features.md names what there is, with its facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca.assets import PROVIDED, TABLE
from hoca.features.backbones import BACKBONES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "features.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_has_a_row_with_its_width(name: str) -> None:
    short = name if not name.startswith("efficientnet") else "-" + name.rsplit("-", 1)[1]
    row = next(line for line in ROWS if f"`{name}`" in line or f"`{short}`" in line)
    assert str(BACKBONES[name].width) in row


@pytest.mark.parametrize("name", [*TABLE, *PROVIDED])
def test_every_asset_is_named(name: str) -> None:
    short = "-" + name.rsplit("-", 1)[-1]
    assert f"`{name}`" in PAGE or f"`{short}`" in PAGE


@pytest.mark.parametrize("backbone", BACKBONES.values(), ids=BACKBONES)
def test_what_a_backbone_says_about_itself_holds_together(backbone) -> None:  # type: ignore[no-untyped-def]
    assert backbone.asset is None or backbone.asset in {**TABLE, **PROVIDED}
    assert (backbone.rate is not None) == (backbone.kind == "audio")
    how = {"steps": 4, "sampling": "default"}
    assert (backbone.pictures(how) is None) == (backbone.kind == "audio")
    assert set(backbone.steps) >= {"default", "paper"}
