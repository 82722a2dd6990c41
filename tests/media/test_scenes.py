from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.media import scenes

from . import making

RATE = 10


def shots(*seconds: float) -> np.ndarray:
    """Shots of plain colours with a square that moves in front of them."""
    colours = [(200, 40, 40), (40, 200, 40), (40, 40, 200), (200, 200, 40), (20, 20, 20), (240, 240, 240)]
    frames = []
    for length, colour in zip(seconds, colours, strict=False):
        shot = making.moving_square(round(length * RATE)).astype(np.int16)
        frames.append(np.where(shot == 30, np.array(colour), shot))
    return np.concatenate(frames).astype(np.uint8)


def found(path: Path, frames: np.ndarray, start: float = 0.0, end: float | None = None) -> list[tuple[float, float]]:
    making.video(path, "libx264", frames, rate=RATE)
    with media.Decoders(1) as decoders:
        return list(scenes.scenes(path, decoders.decode, start, len(frames) / RATE if end is None else end))


def test_cuts_are_found_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "STRETCH", 4.0)  # so that cuts fall into different pieces, and onto an edge
    spans = found(tmp_path / "film.mp4", shots(5, 3, 4, 6))
    np.testing.assert_allclose(spans, [(0, 5), (5, 8), (8, 12), (12, 18)], atol=0.01)
    later = found(tmp_path / "film.mp4", shots(5, 3, 4, 6), start=6, end=15)
    np.testing.assert_allclose(later, [(6, 8), (8, 12), (12, 15)], atol=0.01)


def test_motion_is_no_cut(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shaking = np.stack([np.roll(wide, (rng.integers(-9, 9), rng.integers(-9, 9)), (0, 1)) for wide in shots(8)])
    noise = rng.integers(0, 255, (8 * RATE, 48, 64, 3), np.uint8)
    assert len(found(tmp_path / "shaking.mp4", shaking)) == 1
    assert len(found(tmp_path / "noise.mp4", noise)) == 1


def test_short_scenes_are_joined_and_long_ones_divided() -> None:
    joined = list(scenes.joined([0.5, 4.0, 5.0, 9.0], 0.0, 10.0))
    assert joined == [(0.0, 4.0), (4.0, 10.0)]
    assert list(scenes.joined([], 3.0, 4.0)) == [(3.0, 4.0)]
    parts = list(scenes.divided([(0.0, 20.0), (20.0, 70.0)]))
    assert len(parts) == 4
    assert all(end - start <= scenes.LONGEST for start, end in parts)
    assert all(first[1] == second[0] for first, second in pairwise(parts))


@pytest.mark.parametrize(("end", "count", "last"), [(30.0, 3, 10.0), (34.0, 3, 14.0), (36.0, 4, 6.0), (3.0, 1, 3.0)])
def test_what_is_left_at_the_end_lengthens_the_last_part_or_is_one(end: float, count: int, last: float) -> None:
    spans = list(scenes.stretches(0.0, end, 10.0))
    assert len(spans) == count
    assert spans[-1][1] - spans[-1][0] == pytest.approx(last)
    for place in range(count):  # a run that resumes cuts the rest alike
        assert list(scenes.stretches(spans[place][0], end, 10.0)) == spans[place:]
