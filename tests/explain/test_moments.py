"""Every step covers the seconds that its features were made of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca.explain.moments import Clock, spans

SECONDS = st.floats(0.2, 600)
FRAMES = st.integers(1, 20000)
SAMPLINGS = [
    ({"backbone": "efficientnet-lite2", "sampling": "default"}, 20),
    ({"backbone": "i3d-kinetics-400", "sampling": "default"}, 20),
    ({"backbone": "soundnet-8", "sampling": "default"}, 16),
    ({"backbone": "light-image", "steps": 20}, 20),
    ({"backbone": "light-audio", "steps": 16}, 16),
    ({"backbone": "i3d-kinetics-400", "sampling": "paper"}, 80),
]


@pytest.mark.parametrize(("settings", "steps"), SAMPLINGS)
@given(frames=FRAMES, seconds=SECONDS)
def test_spans_lie_within_the_clip_and_go_on_in_time(settings: dict, steps: int, frames: int, seconds: float) -> None:
    found = spans(settings, steps, Clock(frames, seconds, (0,), (0.0,)))
    assert len(found) == steps
    assert all(0 <= start <= end <= seconds + 1e-3 for start, end in found)
    assert sorted(found) == list(found)


@given(frames=st.integers(20, 20000), seconds=SECONDS)
def test_the_sampled_frame_lies_in_its_span(frames: int, seconds: float) -> None:
    found = spans({"backbone": "efficientnet-lite2", "sampling": "default"}, 20, Clock(frames, seconds, (), ()))
    for i, (start, end) in enumerate(found):
        number = (2 * i + 1) * frames // 40
        assert start - 1e-3 <= (number + 0.5) * seconds / frames <= end + 1e-3  # the middle of its time on screen


def test_times_of_a_clip_with_a_changing_frame_rate() -> None:
    clock = Clock(10, 10.0, (0, 4, 5), (0.0, 8.0, 9.0))  # slow at first, then quick
    assert spans({"backbone": "light-image"}, 2, clock) == ((0.0, 9.0), (9.0, 10.0))


def test_motion_ends_with_the_frames_that_were_looked_at() -> None:
    settings = {"backbone": "i3d-kinetics-400", "sampling": "default"}
    assert spans(settings, 20, Clock(1600, 64.0, (), ()))[-1][1] == pytest.approx(32.0)
    # 320 frames make 40 steps of 8 frames, two for each window.
    assert spans(settings, 20, Clock(320, 10.0, (), ()))[:2] == ((0.0, 0.5), (0.5, 1.0))
    # 88 frames make 11 steps: windows overlap.
    third, fourth = spans(settings, 20, Clock(88, 11.0, (), ()))[1:3]
    assert third == (0.0, 2.0)
    assert fourth == (1.0, 2.0)


def test_sound_steps_are_a_second_and_a_half_apart() -> None:
    found = spans({"backbone": "soundnet-8", "sampling": "default"}, 16, Clock(750, 30.0, (), ()))
    assert found[0][0] == 0
    lengths = [end - start for start, end in found[1:]]
    assert lengths == pytest.approx([32768 / 22050] * 15, abs=2e-3)
    assert all(one[1] == pytest.approx(two[0], abs=2e-3) for one, two in pairwise(found))
