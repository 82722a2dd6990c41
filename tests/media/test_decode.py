from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca import media
from hoca.errors import UserError

from . import making

EVERY = {"all": media.Pictures(range)}
DEFAULT = {
    "image": media.Pictures(media.Spread(20), (26, 30)),
    "motion": media.Pictures(media.First(16, least=16), (22, 24), "area"),
}


def every(path: Path) -> media.DecodedVideo:
    return media.decode(media.Request(path, EVERY))


@given(st.integers(1, 5000), st.integers(1, 100))
def test_picks_stay_within_the_clip(n: int, count: int) -> None:
    spread, first = media.Spread(count)(n), media.First(count, least=16)(n)
    assert spread == [int((i + 0.5) * n / count) for i in range(count)]
    assert len(first) == max(min(n, count), 16)
    assert first == [min(i, n - 1) for i in range(len(first))]
    assert min(spread) >= 0
    assert max(spread) < n


@pytest.mark.parametrize(
    ("name", "codec", "pixels"),
    [
        ("a.mp4", "libx264", "yuv420p"),
        ("a.mov", "prores_ks", "yuv422p10le"),
        ("ten.mp4", "libx265", "yuv420p10le"),
        ("grey.mkv", "ffv1", "gray16le"),
        ("deep.mkv", "ffv1", "gbrp12le"),
        ("float.mkv", "ffv1", "yuv444p16le"),
        ("a.webm", "libvpx-vp9", "yuv420p"),
        ("b.webm", "libvpx", "yuv420p"),
        ("c.webm", "libsvtav1", "yuv420p10le"),
        ("a.avi", "mpeg4", "yuv420p"),
        ("b.avi", "mjpeg", "yuvj422p"),
        ("c.avi", "cinepak", "rgb24"),
        ("a.ts", "mpeg2video", "yuv420p"),
        ("a.mpg", "mpeg1video", "yuv420p"),
        ("a.flv", "flv", "yuv420p"),
        ("a.ogv", "libvpx", "yuv420p"),
        ("a.wmv", "wmv2", "yuv420p"),
        ("a.rm", "rv20", "yuv420p"),
        ("a.mxf", "mpeg2video", "yuv422p"),
        ("a.nut", "huffyuv", "yuv422p"),
        ("a.h264", "libx264", "yuv420p"),
        ("a.y4m", "rawvideo", "yuv420p"),
        ("a.apng", "apng", "rgb24"),
        ("b.mov", "qtrle", "rgb24"),
    ],
)
def test_containers_codecs_and_pixel_formats(tmp_path: Path, name: str, codec: str, pixels: str) -> None:
    frames = making.moving_square(12)
    if pixels.startswith("gray"):
        frames[:] = frames.mean(axis=-1, keepdims=True)
    found = every(making.video(tmp_path / name, codec, frames, pixels=pixels, rate=25))
    assert found.frames == 12
    assert found.pictures["all"].shape == frames.shape
    assert np.abs(found.pictures["all"].astype(int) - frames).mean() < 5
    np.testing.assert_allclose(found.times["all"], np.arange(12) / 25, atol=2e-3)
    assert found.duration == pytest.approx(0.48, abs=0.01)
    assert not found.damage


def test_all_wanted_pictures_and_the_sound_come_from_one_pass(tmp_path: Path) -> None:
    path = making.video(tmp_path / "a.mp4", "libx264", making.moving_square(30), sound="aac")
    together = media.decode(media.Request(path, DEFAULT, 22050))
    assert together.pictures["image"].shape == (20, 26, 30, 3)
    assert together.pictures["motion"].shape == (16, 22, 24, 3)
    assert together.waveform is not None
    assert len(together.waveform) == pytest.approx(3 * 22050, abs=2 * 1024)
    assert together.absent == {}
    for name, wanted in DEFAULT.items():
        alone = media.decode(media.Request(path, {name: wanted}))
        np.testing.assert_array_equal(alone.pictures[name], together.pictures[name])
        np.testing.assert_array_equal(alone.times[name], together.times[name])
    only_sound = media.decode(media.Request(path, rate=22050))
    np.testing.assert_array_equal(only_sound.waveform, together.waveform)  # type: ignore[arg-type]


def test_a_short_clip_repeats_its_frames(tmp_path: Path) -> None:
    path = making.video(tmp_path / "a.mkv", "ffv1", making.numbered(3), pixels="bgr0")
    found = media.decode(
        media.Request(path, {"s": media.Pictures(media.Spread(6)), "f": media.Pictures(media.First(9, 5))})
    )
    assert [making.number_on(frame) for frame in found.pictures["s"]] == [0, 0, 1, 1, 2, 2]
    assert [making.number_on(frame) for frame in found.pictures["f"]] == [0, 1, 2, 2, 2]


def test_one_frame_with_sound(tmp_path: Path) -> None:
    path = making.video(tmp_path / "a.mp4", "libx264", making.numbered(1), rate=1, sound="aac")
    found = media.decode(media.Request(path, DEFAULT, 16000))
    assert found.frames == 1
    assert found.pictures["image"].shape[0] == 20
    assert found.pictures["motion"].shape[0] == 16
    assert found.duration == pytest.approx(1, abs=0.1)
    assert found.absent == {}


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4"])
def test_a_variable_frame_rate_keeps_its_exact_times(tmp_path: Path, name: str) -> None:
    ticks = [500, 507, 620, 1500, 1533, 4000]
    path = making.video(tmp_path / name, "libx264", making.numbered(6), ticks=ticks, options={"crf": "10"})
    at = [0.0, 0.0069, 0.007, 0.119, 0.9995, 1.0, 1.0328, 1.033, 3.4, 3.5, 99.0, -1.0]
    found = media.decode(media.Request(path, {"at": media.Pictures(media.AtTimes(tuple(at))), **EVERY}))
    np.testing.assert_allclose(found.times["all"], (np.array(ticks) - 500) / 1000, atol=1e-6)
    assert [making.number_on(frame) for frame in found.pictures["at"]] == [0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 5, 0]


@pytest.mark.parametrize(
    ("matrix", "upright"),
    [
        ((0, 1, -1, 0), lambda frame: np.rot90(frame, -1)),  # a quarter turn clockwise, as phones do
        ((-1, 0, 0, -1), lambda frame: np.rot90(frame, 2)),
        ((0, -1, 1, 0), lambda frame: np.rot90(frame, 1)),
        ((-1, 0, 0, 1), lambda frame: frame[:, ::-1]),
    ],
)
def test_the_display_matrix_is_applied(tmp_path: Path, matrix: tuple[int, int, int, int], upright: object) -> None:
    path = making.video(tmp_path / "a.mp4", "libx264", making.moving_square(3))
    lying = every(path).pictures["all"][0]
    making.with_matrix(path, *matrix)
    np.testing.assert_array_equal(every(path).pictures["all"][0], upright(lying))  # type: ignore[operator]
    scaled = media.decode(media.Request(path, {"s": media.Pictures(media.First(1), (30, 20))}))
    assert scaled.pictures["s"].shape == (1, 30, 20, 3)


@pytest.mark.parametrize(("height", "width"), [(47, 63), (1, 1), (2, 97), (33, 16)])
def test_odd_sizes(tmp_path: Path, height: int, width: int) -> None:
    frames = np.full((3, height, width, 3), 200, np.uint8)
    path = making.video(tmp_path / "a.mkv", "ffv1", frames)
    assert np.abs(every(path).pictures["all"].astype(int) - frames).max() <= 2
    scaled = media.decode(media.Request(path, DEFAULT))
    assert np.abs(scaled.pictures["image"].astype(int) - 200).max() <= 2


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    frames = np.full((2, 8, 8, 4), 200, np.uint8)
    frames[..., 3] = 255
    frames[:, :4, :, 3] = 0
    frames[:, 4:, 4:, 3] = 128
    path = making.video(tmp_path / "a.apng", "apng", frames, pixels="rgba")
    seen = every(path).pictures["all"][0, :, :, 0]
    assert (seen[:4] == 0).all()
    assert (seen[4:, :4] == 200).all()
    assert (seen[4:, 4:] == 100).all()


@pytest.mark.parametrize("matrix", [1, 5, 9])
@pytest.mark.parametrize("full", [False, True])
def test_the_files_colour_matrix_and_range_are_used(tmp_path: Path, matrix: int, full: bool) -> None:
    """Luma and chroma of a known colour, by the matrix's own formula, come back as that colour."""
    red, green, blue = 200, 60, 20
    weight_red, weight_blue = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 9: (0.2627, 0.0593)}[matrix]
    y = weight_red * red + (1 - weight_red - weight_blue) * green + weight_blue * blue
    u, v = (blue - y) / (2 - 2 * weight_blue), (red - y) / (2 - 2 * weight_red)
    planes = (y, 128 + u, 128 + v) if full else (16 + y * 219 / 255, 128 + u * 224 / 255, 128 + v * 224 / 255)
    path = tmp_path / "a.mkv"
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv444p"
        stream.codec_context.colorspace, stream.codec_context.color_range = matrix, 2 if full else 1
        picture = np.stack([np.full((16, 16), round(plane), np.uint8) for plane in planes])
        frame = av.VideoFrame.from_ndarray(picture, format="yuv444p", channel_last=False)
        frame.colorspace, frame.color_range = matrix, 2 if full else 1
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    for size in (None, (8, 8)):
        found = media.decode(media.Request(path, {"a": media.Pictures(range, size)}))
        np.testing.assert_allclose(found.pictures["a"].mean(axis=(0, 1, 2)), [red, green, blue], atol=2)


@pytest.mark.parametrize("name", ["a.jpg", "a.mkv"])
def test_the_common_colours_of_the_full_range_are_those_of_image_libraries(tmp_path: Path, name: str) -> None:
    """A JPEG, whose pixel format tells the range, and its planes as a video that tells it beside the format."""
    import av
    from PIL import Image

    rough = np.random.default_rng(0).integers(0, 255, (12, 14, 3), dtype=np.uint8)
    Image.fromarray(rough).resize((128, 96), Image.Resampling.BICUBIC).save(tmp_path / "a.jpg", quality=95)
    with av.open(str(tmp_path / "a.jpg")) as source, av.open(str(tmp_path / "a.mkv"), "w") as container:
        frame = av.VideoFrame.from_ndarray(next(source.decode(video=0)).to_ndarray(), format="yuv420p")
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.codec_context.colorspace = frame.colorspace = 5  # JPEG's matrix
        stream.codec_context.color_range = frame.color_range = 2
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    found = media.decode(media.Request(tmp_path / name, {"a": media.Pictures(range, filter="common")}))
    gaps = found.pictures["a"][0].astype(int) - np.asarray(Image.open(tmp_path / "a.jpg"))
    assert np.abs(gaps).max() <= 4
    assert np.abs(gaps).mean() < 0.5


@pytest.mark.parametrize("size", [(128, 96), (127, 95), (1, 1)])
def test_a_jpeg_has_the_pixels_that_image_libraries_give(tmp_path: Path, size: tuple[int, int]) -> None:
    """Odd sides too, where the last chroma sample stands for one pixel."""
    from PIL import Image

    rough = np.random.default_rng(0).integers(0, 255, (12, 14, 3), dtype=np.uint8)
    Image.fromarray(rough).resize(size, Image.Resampling.BICUBIC).save(tmp_path / "a.jpg", quality=95)
    found = media.decode(media.Request(tmp_path / "a.jpg", {"a": media.Pictures(range, filter="common")}))
    gaps = np.abs(found.pictures["a"][0].astype(int) - np.asarray(Image.open(tmp_path / "a.jpg")))
    assert gaps.max() <= 4
    assert gaps.mean() < 0.15


def test_the_common_colours_of_the_limited_range_are_those_of_ffmpeg(tmp_path: Path) -> None:
    import av

    path = making.video(tmp_path / "a.mp4", "libx264", making.moving_square(3), options={"crf": "10"})
    found = media.decode(media.Request(path, {"a": media.Pictures(range, filter="common")})).pictures["a"]
    with av.open(str(path)) as container:
        expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found, every(path).pictures["all"])


@pytest.mark.parametrize("shrink", [(40, 60), (50, 71), (90, 110)])
def test_scaling_is_that_of_rgb_pictures(tmp_path: Path, shrink: tuple[int, int]) -> None:
    """Bicubic as Pillow does it (antialiased); area as the mean over each new pixel's part of the old picture."""
    from PIL import Image

    generator = np.random.default_rng(0)
    rough = generator.integers(0, 255, (12, 14, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(rough).resize((128, 96), Image.Resampling.BICUBIC))[None]
    path = making.video(tmp_path / "a.mkv", "ffv1", smooth, pixels="yuv420p")
    whole = every(path).pictures["all"][0]
    wanted = {"b": media.Pictures(range, shrink), "a": media.Pictures(range, shrink, "area")}
    found = media.decode(media.Request(path, wanted)).pictures
    bicubic = np.asarray(Image.fromarray(whole).resize(shrink[::-1], Image.Resampling.BICUBIC))
    assert np.abs(found["b"][0].astype(int) - bicubic).mean() < 1
    area = np.einsum("yh,hwc,xw->yxc", parts(96, shrink[0]), whole, parts(128, shrink[1]))
    assert np.abs(found["a"][0] - area).mean() < 1.5
    assert abs((found["a"][0] - area).mean()) < 0.2


def parts(old: int, new: int) -> np.ndarray:
    """[new, old]: how much of each old pixel lies in each new one."""
    edges = np.arange(new + 1) * old / new
    lower, upper = np.maximum(edges[:-1, None], np.arange(old)), np.minimum(edges[1:, None], np.arange(old) + 1)
    return np.maximum(upper - lower, 0) * new / old


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.bmp", "a.tiff", "a.gif"])
def test_a_still_picture_is_a_clip_of_one_frame(tmp_path: Path, name: str) -> None:
    from PIL import Image

    picture = making.moving_square(1)[0]
    Image.fromarray(picture).save(tmp_path / name)
    found = media.decode(media.Request(tmp_path / name, DEFAULT | EVERY, 16000))
    assert found.frames == 1
    assert np.abs(found.pictures["all"][0].astype(int) - picture).mean() < 4
    assert found.pictures["image"].shape[0] == 20
    assert "sound" in found.absent


def test_frames_that_do_not_decode_are_not_counted(tmp_path: Path) -> None:
    """The packets promise 30 frames; n is what decoding gives."""
    path = making.video(tmp_path / "a.avi", "mjpeg", making.numbered(30), pixels="yuvj420p")
    content = bytearray(path.read_bytes())
    pictures = [at for at in range(content.index(b"movi"), len(content)) if content[at : at + 4] == b"00dc"]
    for number in (4, 5, 20):
        start = pictures[number] + 8
        size = int.from_bytes(content[start - 4 : start], "little")
        content[start : start + size] = bytes(size)
    path.write_bytes(content)
    found = media.decode(media.Request(path, {"last": media.Pictures(lambda n: [n - 1, 4]), **EVERY}))
    assert found.frames == 27
    assert [making.number_on(frame) for frame in found.pictures["all"]][:6] == [0, 1, 2, 3, 6, 7]
    assert [making.number_on(frame) for frame in found.pictures["last"]] == [29, 6]
    assert found.damage


def test_a_pick_outside_of_the_clip_is_a_mistake_of_the_program(tmp_path: Path) -> None:
    path = making.video(tmp_path / "a.mp4", "libx264", making.moving_square(3))
    with pytest.raises(ValueError, match="from 0 to 2"):
        media.decode(media.Request(path, {"a": media.Pictures(lambda n: [n])}))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (media.DecodeLimits(bytes=100), "more than the limit of 100"),
        (media.DecodeLimits(seconds=1), "longer than the limit of 1 s"),
        (media.DecodeLimits(pixels=1000), "64×48"),
        (media.DecodeLimits(frames=20), "limit of 20"),
        (media.DecodeLimits(memory=10_000), "limit of 10000"),
        (media.DecodeLimits(decode_seconds=0), "limit of 0 s"),
    ],
)
def test_limits_end_in_one_line(tmp_path: Path, limits: media.DecodeLimits, message: str) -> None:
    path = making.video(tmp_path / "a.mp4", "libx264", making.moving_square(30))
    with pytest.raises(UserError, match=message) as raised:
        media.decode(media.Request(path, EVERY), limits)
    assert "a.mp4" in str(raised.value)


def test_making_files_leaves_this_process_in_its_place(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0)
    making.video(tmp_path / "a.webm", "libsvtav1", making.moving_square(2))
    assert os.sched_getscheduler(0) == before
