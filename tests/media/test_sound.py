from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.errors import UserError

from . import making


def waveform(path: Path, rate: int = 16000, seconds: float | None = None) -> np.ndarray:
    found = media.decode(media.Request(path, rate=rate, sound_seconds=seconds))
    assert found.waveform is not None
    assert found.waveform.dtype == np.float32
    assert found.rate == rate
    return found.waveform


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.wav", "pcm_u8"),
        ("a.wav", "pcm_s16le"),
        ("a.wav", "pcm_s24le"),
        ("a.wav", "pcm_s32le"),
        ("a.wav", "pcm_f32le"),
        ("a.wav", "pcm_f64le"),
        ("a.wav", "pcm_mulaw"),
        ("a.flac", "flac"),
        ("a.mp3", "libmp3lame"),
        ("a.m4a", "aac"),
        ("a.m4a", "alac"),
        ("a.ogg", "libopus"),
        ("a.mka", "pcm_s16be"),
        ("a.ac3", "ac3"),
        ("a.wv", "wavpack"),
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_any_sample_format_becomes_mono(tmp_path: Path, name: str, codec: str, channels: int) -> None:
    rate = 48000
    left = making.tone(1, rate=rate)
    both = np.stack([left, np.zeros_like(left)])[:channels]
    found = waveform(making.sound(tmp_path / name, codec, both, rate), rate)
    assert len(found) == pytest.approx(rate, abs=4096)
    middle = found[rate // 4 : rate // 2]
    assert np.abs(np.fft.rfft(found[: rate // 2])).argmax() == 220
    assert np.abs(middle).max() == pytest.approx(0.5 / channels, rel=0.12)  # the mean of the channels


@pytest.mark.parametrize(("name", "codec"), [("a.wav", "pcm_s16le"), ("a.m4a", "aac"), ("a.mka", "flac")])
@pytest.mark.parametrize("channels", [6, 8])
def test_surround_sound_becomes_mono(tmp_path: Path, name: str, codec: str, channels: int) -> None:
    """Planar or not, all channels count alike; a codec may take most of the tone from the bass channel."""
    both = np.repeat(making.tone(1, rate=48000)[None], channels, axis=0)
    found = waveform(making.sound(tmp_path / name, codec, both, 48000), 48000)
    assert np.abs(np.fft.rfft(found[:24000])).argmax() == 220
    assert np.abs(found[12000:24000]).max() == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
def test_resampling_keeps_the_tone(tmp_path: Path, rate: int) -> None:
    path = making.sound(tmp_path / "a.wav", "pcm_s16le", making.tone(2, rate=32000)[None], 32000)
    found = waveform(path, rate)
    assert len(found) == pytest.approx(2 * rate, abs=2)
    expected = making.tone(2, rate=rate)
    assert np.abs(found[rate // 2 : rate] - expected[rate // 2 : rate]).max() < 0.01


def test_as_much_sound_as_is_wanted(tmp_path: Path) -> None:
    path = making.sound(tmp_path / "a.flac", "flac", making.tone(30)[None])
    assert len(waveform(path)) == 30 * 16000
    np.testing.assert_array_equal(waveform(path, seconds=1.5), waveform(path)[: 3 * 8000])


def test_sound_that_plays_too_long_is_refused_unless_its_beginning_is_enough(tmp_path: Path) -> None:
    path = making.sound(tmp_path / "a.flac", "flac", making.tone(40)[None])
    limits = media.DecodeLimits(seconds=20)
    with pytest.raises(UserError, match="longer than the limit of 20 s"):
        media.decode(media.Request(path, rate=16000), limits)
    found = media.decode(media.Request(path, rate=16000, sound_seconds=5), limits)
    assert found.waveform is not None
    assert len(found.waveform) == 5 * 16000


def test_sound_starts_with_the_first_picture(tmp_path: Path) -> None:
    frames = making.moving_square(30)
    late = making.video(
        tmp_path / "late.mkv", "libx264", frames, ticks=[500 + 100 * i for i in range(30)], sound="flac"
    )
    both = media.decode(media.Request(late, {"a": media.Pictures(range)}, 16000))
    alone = waveform(late)
    assert both.waveform is not None
    np.testing.assert_allclose(both.waveform, alone[8000:], atol=1e-3)


def test_sound_without_a_picture_and_a_picture_without_sound(tmp_path: Path) -> None:
    pictures = {"a": media.Pictures(range)}
    silent = making.video(tmp_path / "silent.mp4", "libx264", making.moving_square(3))
    assert media.decode(media.Request(silent, pictures, 16000)).absent == {"sound": "there is no sound in the file"}
    blind = making.sound(tmp_path / "blind.mp3", "libmp3lame", making.tone(1)[None])
    found = media.decode(media.Request(blind, pictures, 16000))
    assert found.absent == {"picture": "there is no picture in the file"}
    assert found.frames == 0
    assert found.pictures == {}
    assert found.duration == pytest.approx(1, abs=0.1)


def test_no_sound_is_louder_than_its_power_can_be_told(tmp_path: Path) -> None:
    samples = np.array([0.5, -3e38, 3e38, np.inf, np.nan] * 2000, np.float32)
    form = struct.pack("<IHHIIHH", 16, 3, 1, 16000, 16000 * 4, 4, 32)  # float
    wav = b"WAVEfmt " + form + b"data" + struct.pack("<I", samples.nbytes) + samples.tobytes()
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(wav)) + wav)
    found = waveform(tmp_path / "a.wav")
    assert np.isfinite(np.square(found)).all()


def test_sound_of_too_many_channels_leaves_the_pictures(tmp_path: Path) -> None:
    path = making.many_channels(tmp_path / "a.mkv")
    found = media.decode(media.Request(path, {"a": media.Pictures(media.Spread(3))}, 16000))
    assert found.frames == 10
    assert found.waveform is None
    assert "the sound cannot be decoded" in found.absent["sound"]
