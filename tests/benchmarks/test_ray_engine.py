"""The Ray engine beside the local one, at tiny size."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..features.engines.clips import write_clip
from .scripts import script

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc, absent here")


@needs_proc
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_one_extraction_says_what_it_took(tmp_path: Path, engine: str) -> None:
    if engine == "ray":
        pytest.importorskip("ray", reason="needs Ray: pip install 'hoca[cluster]'")
    for seed in range(3):
        write_clip(tmp_path / f"{seed}.mp4", seed=seed)
    measured = script("ray_engine")["Run"](engine, 1, 1, str(tmp_path), "light-image").measure()
    assert measured["rate"] > 0 < measured["driver"]
    assert (measured["control"] > 0) == (engine == "ray")


def test_a_further_video_costs_the_difference() -> None:
    few, many = {"driver": 2.0, "control": 0.5}, {"driver": 2.5, "control": 0.6}
    row = script("ray_engine")["of_a_further_video"](few, many, 1000)
    assert row == {"driver_ms": "0.500", "control_ms": "0.100", "feeds": "2000"}
