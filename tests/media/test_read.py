from __future__ import annotations

import io
import os
import stat
import wave
from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.errors import UserError

from .making import moving_square, tone


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    frames, sound = moving_square(), tone(3)
    media.write(tmp_path / "clip.mp4", frames, 10, sound)
    clip = media.read(tmp_path / "clip.mp4")
    assert clip.frames.shape == frames.shape
    assert clip.frames.dtype == np.uint8
    assert np.abs(clip.frames.astype(int) - frames).mean() < 6
    np.testing.assert_allclose(clip.times, np.arange(30) / 10, atol=1e-3)
    assert clip.duration == pytest.approx(3, abs=0.1)
    assert clip.waveform is not None
    assert clip.waveform.dtype == np.float32
    assert len(clip.waveform) == pytest.approx(48000, abs=2048)
    assert np.corrcoef(clip.waveform[4000:40000], sound[4000:40000])[0, 1] > 0.98


def test_sound_comes_at_the_wanted_rate(tmp_path: Path) -> None:
    media.write(tmp_path / "clip.mp4", moving_square(), 10, tone(3))
    clip = media.read(tmp_path / "clip.mp4", rate=8000)
    assert clip.rate == 8000
    assert clip.waveform is not None
    spectrum = np.abs(np.fft.rfft(clip.waveform[:8000]))
    assert spectrum.argmax() == 440


def test_no_sound_is_none(tmp_path: Path) -> None:
    media.write(tmp_path / "clip.mp4", moving_square(), 10)
    assert media.read(tmp_path / "clip.mp4").waveform is None
    media.write(tmp_path / "loud.mp4", moving_square(), 10, tone(3))
    assert media.read(tmp_path / "loud.mp4", rate=None).waveform is None


def test_frames_at_times_are_those_on_screen_then(tmp_path: Path) -> None:
    media.write(tmp_path / "clip.mp4", moving_square(), 10)
    every = media.read(tmp_path / "clip.mp4").frames
    wanted = [1.0, 0.0, 0.99, 1.05, 99.0, -1.0, 1.0]
    chosen = media.read(tmp_path / "clip.mp4", times=wanted)
    np.testing.assert_array_equal(chosen.frames, every[[10, 0, 9, 10, 29, 0, 10]])
    assert list(chosen.times) == wanted


def test_a_frame_is_on_screen_at_its_own_time_however_the_container_rounds_it() -> None:
    shown = [round(number / 24, 4) for number in range(48)]
    assert media.AtTimes(tuple(number / 24 for number in range(48))).numbers(shown) == list(range(48))


def test_each_frame_is_transformed_as_it_is_decoded(tmp_path: Path) -> None:
    media.write(tmp_path / "clip.mp4", moving_square(), 10)
    clip = media.read(tmp_path / "clip.mp4", transform=lambda frame: frame[::2, ::2])
    assert clip.frames.shape == (30, 24, 32, 3)


def test_the_same_pictures_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        media.write(tmp_path / name, moving_square(), 10, tone(3))
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_bad_frames_leave_no_file(tmp_path: Path) -> None:
    for frames in (moving_square()[:, :47], moving_square().astype(np.float32), moving_square()[:0]):
        with pytest.raises(UserError, match=r"clip\.mp4"):
            media.write(tmp_path / "clip.mp4", frames, 10)
    with pytest.raises(ValueError, match="ndim"):  # only once the pictures are written
        media.write(tmp_path / "clip.mp4", moving_square(), 10, np.zeros((2, 2, 100), np.float32))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_can_be_read_by_whom_the_umask_allows(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        media.write(tmp_path / "clip.mp4", moving_square(), 10)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "clip.mp4").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.mp4", None, "not there"),
        ("text.mp4", b"this is a text file\n" * 20, "not a video"),
        ("empty.mp4", b"", "not a video"),
        ("noise.mp4", bytes(range(256)) * 16, "not a video|no picture"),
        ("http:example.mp4", None, "not there"),
    ],
)
def test_what_is_no_video_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        media.read(tmp_path / name)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a folder"):
        media.read(tmp_path)


def test_sound_without_picture_is_named(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((tone(1) * 32767).astype(np.int16).tobytes())
    (tmp_path / "sound.wav").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="no picture"):
        media.read(tmp_path / "sound.wav")


def test_a_cut_file_gives_what_is_there_or_one_line(tmp_path: Path) -> None:
    media.write(tmp_path / "clip.mp4", moving_square(), 10, tone(3))
    whole = (tmp_path / "clip.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"cut\.mp4"):
        media.read(tmp_path / "cut.mp4")


def test_real_clips_of_many_containers_are_read(shared_data: Path) -> None:
    with_sound = 0
    for path in sorted((shared_data / "sample_videos").glob("*.*")):
        if path.suffix in (".mp4", ".avi"):
            clip = media.read(path, times=[0.0, 0.5, 1.0])
            assert clip.frames.shape[0] == 3
            assert clip.frames.std() > 1
            assert clip.duration > 0.5
            with_sound += clip.waveform is not None
    assert with_sound == 3
