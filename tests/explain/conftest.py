"""Clips and a model for the tests of explanations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..browser import chromium
from .trained import fit, prepare

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("explained") / "data")


@pytest.fixture(scope="session")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(data, tmp_path_factory.mktemp("explained") / "bound")


@pytest.fixture(scope="session")
def unary(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(data, tmp_path_factory.mktemp("explained") / "alone", model="hoca-u", epochs=6)


@pytest.fixture(scope="session")
def soft(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that attends to each modality, and has no groups of them."""
    return fit(data, tmp_path_factory.mktemp("explained") / "soft", model="sa-lstm", epochs=6)


@pytest.fixture(scope="module")  # an open browser keeps an event loop in this thread, which other tests may not expect
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened
