"""Every step covers the seconds that its features were made of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca.explain.moments import coverage, spans
from hoca.features import BACKBONES
from hoca.media.clock import Clock

SECONDS = st.floats(0.2, 600)
FRAMES = st.integers(1, 20000)
SETTINGS = [
    {"backbone": name, "sampling": sampling, "steps": steps}
    for name, found in BACKBONES.items()
    for sampling, steps in found.steps.items()
]
MOTION = {"backbone": "i3d-kinetics-400", "sampling": "default", "steps": 20}


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: f"{settings['backbone']}-{settings['sampling']}")
@given(frames=FRAMES, seen=SECONDS, heard=SECONDS)
def test_spans_lie_within_the_clip_and_go_on_in_time(settings: dict, frames: int, seen: float, heard: float) -> None:
    found = spans(settings, settings["steps"], Clock(frames, seen, heard, (0,), (0.0,)))
    assert len(found) == settings["steps"]
    end_of = heard if BACKBONES[settings["backbone"]].kind == "audio" else seen
    assert all(0 <= start <= end <= end_of + 1e-3 for start, end in found)
    assert sorted(found) == list(found)


@given(frames=st.integers(20, 20000), seconds=SECONDS)
def test_the_sampled_frame_lies_in_its_span(frames: int, seconds: float) -> None:
    settings = {"backbone": "efficientnet-lite2", "sampling": "default", "steps": 20}
    for i, (start, end) in enumerate(spans(settings, 20, Clock(frames, seconds, 0.0))):
        number = (2 * i + 1) * frames // 40
        assert start - 1e-3 <= (number + 0.5) * seconds / frames <= end + 1e-3  # the middle of its time on screen


def test_a_difference_covers_both_of_its_pictures() -> None:
    change = {"backbone": "dinov2-small", "sampling": "default", "steps": 3, "difference": "image"}
    assert spans(change, 3, Clock(100, 8.0, 0.0)) == ((0.0, 4.0), (2.0, 6.0), (4.0, 8.0))


def test_times_of_a_clip_with_a_changing_frame_rate() -> None:
    clock = Clock(10, 10.0, 10.0, (0, 4, 5), (0.0, 8.0, 9.0))  # slow at first, then quick
    assert spans({"backbone": "light-image"}, 2, clock) == ((0.0, 9.0), (9.0, 10.0))


def test_motion_ends_with_the_frames_that_were_looked_at() -> None:
    assert spans(MOTION, 20, Clock(1600, 64.0, 0.0))[-1][1] == pytest.approx(32.0)
    # 320 frames make 40 steps of 8 frames, two for each window.
    assert spans(MOTION, 20, Clock(320, 10.0, 0.0))[:2] == ((0.0, 0.5), (0.5, 1.0))
    # 88 frames make 11 steps: windows overlap.
    third, fourth = spans(MOTION, 20, Clock(88, 11.0, 0.0))[1:3]
    assert third == (0.0, 2.0)
    assert fourth == (1.0, 2.0)


def test_where_the_last_frame_is_repeated_a_step_is_that_frame() -> None:
    assert spans(MOTION, 2, Clock(5, 5.0, 0.0)) == ((0.0, 5.0), (4.0, 5.0))


def test_sound_steps_are_a_second_and_a_half_apart() -> None:
    settings = {"backbone": "soundnet-8", "sampling": "default", "steps": 16}
    found = spans(settings, 16, Clock(750, 30.0, 30.0))
    assert found[0][0] == 0
    lengths = [end - start for start, end in found[1:]]
    assert lengths == pytest.approx([32768 / 22050] * 15, abs=2e-3)
    assert all(one[1] == pytest.approx(two[0], abs=2e-3) for one, two in pairwise(found))


@pytest.mark.parametrize("settings", [{"backbone": "mine", "steps": 4}, {"backbone": "hf:gone"}, {}])
def test_features_of_someone_elses_making_are_spread_evenly(settings: dict) -> None:
    assert spans(settings, 4, Clock(100, 4.0, 8.0)) == ((0, 2), (2, 4), (4, 6), (6, 8))


def test_a_step_is_covered_by_the_part_of_it_that_lies_within_the_moments() -> None:
    steps = ((0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 3.0))
    assert coverage(steps, ((0.5, 1.0), (1.25, 2.0))) == (0.5, 0.75, 0.0, 0.0)
    assert coverage(steps, ((0.0, 3.0), (1.0, 2.0))) == (1.0, 1.0, 1.0, 0.0)
    assert coverage(steps, ()) == (0.0,) * 4
