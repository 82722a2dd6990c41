"""Trainings without what most of their tests do not look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _curves(request: pytest.FixtureRequest) -> Iterator[None]:
    """To draw its curves is half of a tiny training: they are drawn in the tests of the loop, and empty elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.module.__name__.endswith("test_loop"):
            patch.setattr("hoca.training.log.curves_figure", lambda runs, path: path.touch())
        yield
