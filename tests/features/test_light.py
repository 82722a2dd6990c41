from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.features import light
from hoca.features.picture import Salient, shrink
from hoca.media import Spread


def still(colour: tuple[int, int, int], x: int = 20, count: int = 8) -> np.ndarray:
    frames = np.full((count, 64, 64, 3), 30, np.uint8)
    frames[:, 20:36, x : x + 16] = colour
    return frames


def moving(step_x: int, step_y: int, count: int = 10) -> np.ndarray:
    frames = np.full((40, 64, 64, 3), 30, np.uint8)
    for number in range(count):
        x, y = 24 + step_x * (number - count // 2), 24 + step_y * (number - count // 2)
        frames[10 + number, y : y + 16, x : x + 16] = (40, 200, 220)
    return frames


@given(st.integers(1, 500), st.integers(1, 80))
def test_even_sampling_stays_inside_and_in_order(count: int, steps: int) -> None:
    numbers = Spread(steps)(count)
    assert len(numbers) == steps
    assert numbers[0] >= 0
    assert numbers[-1] < count
    assert (np.diff(numbers) >= 0).all()
    if count >= steps:
        assert (np.diff(numbers) > 0).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 80), st.integers(0, 2**32 - 1))
def test_any_frames_give_finite_features_of_the_stated_shape(count: int, steps: int, seed: int) -> None:
    frames = np.random.default_rng(seed).integers(0, 256, (count, 64, 64, 3), dtype=np.uint8)
    for features, width in ((light.image, light.IMAGE_WIDTH), (light.motion, light.MOTION_WIDTH)):
        values = features(frames, steps)
        assert values.shape == (steps, width)
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
        assert np.abs(values).max() < 10


@pytest.mark.parametrize("level", [0, 30, 255])
def test_a_flat_picture_has_no_outline(level: int) -> None:
    frames = np.full((4, 64, 64, 3), level, np.uint8)
    assert not light.image(frames, 4)[:, 48:].any()
    assert not light.motion(frames, 4).any()


def test_hues_are_those_of_the_thing_wherever_it_is() -> None:
    hues = slice(48 + 64, 48 + 64 + light.HUES + 1)
    red, elsewhere = light.image(still((220, 40, 40)), 2)[0, hues], light.image(still((220, 40, 40), x=40), 2)[0, hues]
    blue, white = light.image(still((40, 40, 220)), 2)[0, hues], light.image(still((240, 240, 240)), 2)[0, hues]
    np.testing.assert_allclose(red, elsewhere, atol=1e-5)
    assert [int(values.argmax()) for values in (red, blue, white)] == [0, 8, light.HUES]


@pytest.mark.parametrize(("step_x", "step_y"), [(2, 0), (-2, 0), (0, 2), (0, -2)])
def test_travel_has_the_direction_of_the_motion(step_x: int, step_y: int) -> None:
    right, down, larger, left, up, smaller = light.motion(moving(step_x, step_y), 20)[6:9, 96:102].T
    for one, other, step in ((right, left, step_x), (down, up, step_y), (larger, smaller, 0)):
        np.testing.assert_array_equal(np.sign(np.round(one - other, 2)), np.sign([step] * 3))


def test_what_appears_and_goes_has_not_travelled() -> None:
    frames = np.full((40, 64, 64, 3), 30, np.uint8)
    frames[20:30, 8:24, 40:56] = (40, 200, 220)
    assert not light.motion(frames, 20)[:, 96:102].any()


def test_motion_does_not_see_a_still_picture() -> None:
    assert not light.motion(still((220, 40, 40)), 4).any()


def test_audio_hears_when_and_how_high() -> None:
    time = np.arange(2 * light.RATE) / light.RATE
    low = np.where(time < 1, np.sin(2 * np.pi * 200 * time), 0).astype(np.float32)
    high = np.where(time < 1, np.sin(2 * np.pi * 3000 * time), 0).astype(np.float32)
    hears_low, hears_high = light.audio(low, 8), light.audio(high, 8)
    assert hears_low is not None
    assert hears_high is not None
    assert hears_low.shape == (8, light.AUDIO_WIDTH)
    assert hears_low[1, : light.BANDS].argmax() < 10 < 20 < hears_high[1, : light.BANDS].argmax()
    assert hears_low[1].max() > hears_low[6].max() + 1


@pytest.mark.parametrize("samples", [0, 1, 100, 401, 7000])
def test_short_sounds_give_all_steps(samples: int) -> None:
    features = light.audio(np.full(samples, 0.1, np.float32), 16)
    if samples:
        assert features is not None
        assert features.shape == (16, light.AUDIO_WIDTH)
        assert np.isfinite(features).all()
    else:
        assert features is None


def test_silence_is_absent_not_zeros() -> None:
    assert light.audio(np.zeros(16000, np.float32), 16) is None
    assert light.audio(np.full(16000, 1e-5, np.float32), 16) is None


@pytest.mark.parametrize("size", [(64, 64), (48, 100), (240, 320), (33, 65), (1, 1)])
def test_shrinking_keeps_the_mean(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    small = shrink(picture)
    assert small.shape == (64, 64, 3)
    np.testing.assert_allclose(small.mean((0, 1)), picture.mean((0, 1)), atol=0.5)


def test_a_patch_follows_the_outline_not_its_place() -> None:
    weights = np.zeros((2, 64, 64), np.float32)
    weights[0, 10:26, 8:24] = 1
    weights[1, 40:56, 30:46] = 0.3
    one, other = Salient(weights).patches()
    np.testing.assert_allclose(one, other, atol=1e-4)
    assert one.max() == 1
