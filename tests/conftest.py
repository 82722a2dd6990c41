"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real captions, clips and features that are not ours to publish; tests that need them skip when absent."""
    folder = Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the research data, absent here ({folder}); set HOCA_DATA to its folder")
    return folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
