from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hoca import features, media
from hoca.errors import UserError
from hoca.features import light


def frames(count: int = 20, side: int = 64) -> np.ndarray:
    pictures = np.full((count, side, side, 3), 30, np.uint8)
    for number, picture in enumerate(pictures):
        picture[side // 4 : side // 2, number : number + side // 4] = (40, 200, 220)
    return pictures


def clip(waveform: np.ndarray | None, count: int = 20, side: int = 64) -> media.Clip:
    return media.Clip(frames(count, side), np.arange(count) / 10, count / 10, waveform)


def siren() -> np.ndarray:
    time = np.arange(32000) / 16000
    return (0.3 * np.sin(2 * np.pi * (400 * time + 300 * time**2))).astype(np.float32)


def test_a_specification_survives_json_and_makes_the_same_features() -> None:
    specification = features.light_specification()
    again = json.loads(json.dumps(specification))
    first, second = features.of_clip(clip(siren()), specification), features.of_clip(clip(siren()), again)
    assert list(first.features) == ["image", "motion", "audio"]
    assert {name: values.shape for name, values in first.features.items()} == {
        "image": (20, light.IMAGE_WIDTH),
        "motion": (20, light.MOTION_WIDTH),
        "audio": (16, light.AUDIO_WIDTH),
    }
    for name, values in first.features.items():
        np.testing.assert_array_equal(values, second.features[name])


def test_a_file_gives_nearly_the_features_of_its_arrays(tmp_path: Path) -> None:
    sound = siren()
    media.write(tmp_path / "clip.mp4", frames(), 10, sound)
    specification = features.light_specification()
    decoded = features.extract(tmp_path / "clip.mp4", specification)
    rendered = features.of_clip(clip(sound), specification)
    assert decoded.absent == {}
    assert decoded.duration == pytest.approx(rendered.duration, abs=0.1)
    for name, values in rendered.features.items():
        similar = np.corrcoef(values.ravel(), decoded.features[name].ravel())[0, 1]
        assert similar > 0.95, name


def test_modalities_left_out_of_the_specification_are_not_made() -> None:
    made = features.of_clip(clip(None), features.light_specification(image=5, motion=0, audio=0))
    assert list(made.features) == ["image"]
    assert made.features["image"].shape == (5, light.IMAGE_WIDTH)
    assert made.absent == {}


@pytest.mark.parametrize(("waveform", "why"), [(None, "no sound"), (np.zeros(9000, np.float32), "silent")])
def test_sound_that_is_not_there_is_absent_with_a_reason(waveform: np.ndarray | None, why: str) -> None:
    made = features.of_clip(clip(waveform), features.light_specification())
    assert list(made.features) == ["image", "motion"]
    assert why in made.absent["audio"]


def test_one_frame_has_no_motion() -> None:
    made = features.of_clip(clip(None, count=1), features.light_specification())
    assert list(made.features) == ["image"]
    assert "motion" in made.absent


def with_change(image: int = 5) -> dict:
    made = features.light_specification(image=image, motion=0, audio=0)
    return made | {"change": {**made["image"], "steps": image - 1, "difference": "image"}}


def test_change_is_the_difference_of_neighbouring_pictures() -> None:
    made = features.of_clip(clip(None), with_change())
    np.testing.assert_array_equal(made.features["change"], np.diff(made.features["image"], axis=0))
    assert np.abs(made.features["change"]).sum() > 0


def test_one_picture_does_not_change() -> None:
    made = features.of_clip(clip(None, count=1), with_change(image=2) | {"image": with_change(image=1)["image"]})
    assert list(made.features) == ["image"]
    assert made.absent == {"change": "a single picture does not change"}


def test_change_of_what_is_not_made_is_refused() -> None:
    alone = {"change": with_change()["change"]}
    with pytest.raises(UserError, match="change is a difference of 'image', which it does not have"):
        features.of_clip(clip(None), alone)
    with pytest.raises(UserError, match="give a backbone for them"):
        features.specify(image=None, change=True)


def test_large_pictures_give_features_like_small_ones() -> None:
    small = features.of_clip(clip(None), features.light_specification()).features["image"]
    large = features.of_clip(
        media.Clip(frames().repeat(3, axis=1).repeat(3, axis=2), np.arange(20) / 10, 2.0),
        features.light_specification(),
    ).features["image"]
    np.testing.assert_allclose(small, large, atol=1e-5)


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ({"image": {"backbone": "resnet", "steps": 20}}, "no image backbone 'resnet': known: dinov2-small"),
        ({"image": {"backbone": "light-image", "sampling": "even", "steps": 81}}, "81 steps, give 1 to 80"),
        ({"image": {"backbone": "light-image", "sampling": "even"}}, "None steps"),
        ({"image": {"backbone": "light-image", "steps": 3}}, "sampling None, light-image knows even"),
        ({"image": None}, "no image backbone None"),
        ({"sound": {"backbone": ["light-audio"], "steps": 3}}, "no sound backbone"),
    ],
)
def test_a_specification_that_cannot_be_followed_is_named(specification: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        features.of_clip(clip(None), specification)


def test_real_clips_give_features(shared_data: Path) -> None:
    made = features.extract(shared_data / "sample_videos" / "basketball.mp4", features.light_specification())
    assert made.features["image"].std() > 0.1
    assert made.features["motion"].std() > 0.01
