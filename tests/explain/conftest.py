"""Clips and a model for the tests of explanations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..browser import chromium
from ..conftest import Once
from .trained import fit, prepare

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def data(once: Once) -> Path:
    return once("clips", prepare)


@pytest.fixture(scope="session")
def run(data: Path, once: Once) -> Path:
    return once("bound", partial(fit, data))


@pytest.fixture(scope="session")
def unary(data: Path, once: Once) -> Path:
    return once("alone", partial(fit, data, model="hoca-u", epochs=6))


@pytest.fixture(scope="session")
def soft(data: Path, once: Once) -> Path:
    """A model that attends to each modality, and has no groups of them."""
    return once("soft", partial(fit, data, model="sa-lstm", epochs=6))


@pytest.fixture(scope="module")  # an open browser keeps an event loop in this thread, which other tests may not expect
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened
