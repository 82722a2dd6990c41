"""Clips and a model for the tests of explanations."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trained import fit, prepare


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("explained") / "data")


@pytest.fixture(scope="session")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(data, tmp_path_factory.mktemp("explained") / "bound")


@pytest.fixture(scope="session")
def unary(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(data, tmp_path_factory.mktemp("explained") / "alone", model="hoca-u", epochs=6)
