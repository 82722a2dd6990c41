"""Decoded frames as upright RGB arrays of a wanted size."""

from __future__ import annotations

from typing import Any

import numpy as np


class Converter:
    """Frames as uint8 RGB [height, width, 3], all of one size: that of the first frame if none is given.

    libswscale converts and scales in one step. By default it halves the chroma's width and rounds down; with these
    flags the result is that of converting to RGB first and scaling then, in less than half the time
    (results/scaling.csv). Both filters widen with the scale, so that shrinking does not alias.

    `common` is for frames that are not scaled: the colours that programs built on FFmpeg give by default, which
    networks and stored features have seen. Full-range frames are converted exactly there too, and JPEG's as image
    libraries do it: libswscale would stretch the chroma of pictures with an odd side and not round it.
    """

    def __init__(self, size: tuple[int, int] | None = None, filter: str = "bicubic") -> None:
        from av.video.reformatter import Interpolation, VideoReformatter

        self.scaler = VideoReformatter()  # one for all frames: a new one each time costs more than the decoding
        kernel = {"bicubic": Interpolation.BICUBIC}.get(filter, Interpolation.AREA)
        self.flags = kernel | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
        self.limited_range_flags = Interpolation.BICUBIC if filter == "common" else self.flags
        self.size = size
        self.as_image_libraries = filter == "common"

    def __call__(self, frame: Any) -> np.ndarray:
        turn = Turn(frame)
        if self.size is None:
            self.size = (frame.width, frame.height) if turn.transposes else (frame.height, frame.width)
        height, width = self.size[::-1] if turn.transposes else self.size
        if any(component.is_alpha for component in frame.format.components):
            picture = _on_black(self._scaled(frame, height, width, "rgba"))
        elif self.as_image_libraries and _is_jpeg(frame) and (frame.height, frame.width) == (height, width):
            picture = _from_jpeg(frame)
        else:
            picture = self._scaled(frame, height, width, "rgb24")
        return np.ascontiguousarray(turn(picture))

    def _scaled(self, frame: Any, height: int, width: int, format: str) -> np.ndarray:
        import av
        from av.video.reformatter import Colorspace

        wanted: dict[str, Any] = {
            "height": height,
            "width": width,
            "format": format,
            "interpolation": self.flags if _full_range(frame) else self.limited_range_flags,
            "threads": 1,
        }
        try:
            scaled = self.scaler.reformat(frame, **wanted)
        except (av.FFmpegError, OSError, ValueError):
            # The file names a colour matrix that libswscale does not know: take the usual one.
            usual = Colorspace.ITU601
            scaled = self.scaler.reformat(frame, **wanted, src_colorspace=usual, dst_colorspace=usual)
        return scaled.to_ndarray()


def _full_range(frame: Any) -> bool:
    return frame.color_range == 2 or frame.format.name.startswith("yuvj")  # FFmpeg's number of the JPEG range


def _is_jpeg(frame: Any) -> bool:
    """Whether it is as JPEG has it: chroma at half the size, full range, the matrix of BT.601 (FFmpeg's number 5)."""
    return frame.format.name == "yuvj420p" and frame.colorspace == 5


def _from_jpeg(frame: Any) -> np.ndarray:
    """[height, width, 3] as libjpeg converts it: chroma between its points 3 : 1, rounded, then the exact matrix."""
    planes = [np.frombuffer(plane, np.uint8).reshape(plane.height, -1)[:, : plane.width] for plane in frame.planes]
    y = planes[0].astype(np.float32)
    blue, red = (_doubled(plane)[: frame.height, : frame.width].astype(np.float32) - 128 for plane in planes[1:])
    rgb = np.stack([y + 1.402 * red, y - 0.344136 * blue - 0.714136 * red, y + 1.772 * blue], axis=-1)
    return np.rint(rgb).clip(0, 255).astype(np.uint8)


def _doubled(plane: np.ndarray) -> np.ndarray:
    """[h, w] → [2h, 2w]; halves are rounded up and down in turn, as libjpeg does."""
    sixteenths = _between(_between(plane.astype(np.int32)).T).T
    sixteenths[:, 0::2] += 8
    sixteenths[:, 1::2] += 7
    return sixteenths >> 4


def _between(rows: np.ndarray) -> np.ndarray:
    """[n, m] → [2n, m] in quarters: each row three times with the one before it, then with the one after it."""
    edged = np.pad(rows, ((1, 1), (0, 0)), mode="edge")
    return (3 * rows[:, None] + np.stack([edged[:-2], edged[2:]], axis=1)).reshape(-1, rows.shape[1])


class Turn:
    """The quarter turn or mirroring that the file's display matrix asks for."""

    def __init__(self, frame: Any) -> None:
        a, b, _, c, d = _display_matrix(frame)[:5]  # x' = a·x + c·y, y' = b·x + d·y
        self.transposes = abs(b) > abs(a)
        self.mirrors, self.flips = (c < 0, b < 0) if self.transposes else (a < 0, d < 0)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        if self.transposes:
            picture = picture.transpose(1, 0, 2)
        if self.mirrors:
            picture = picture[:, ::-1]
        return picture[::-1] if self.flips else picture


def _display_matrix(frame: Any) -> list[int]:
    try:
        matrix = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # there is side data that PyAV does not know, as in pictures of cameras: it gives only the angle
        quarter = round(frame.rotation / 90) % 4
        return [[1, 0, 0, 0, 1], [0, -1, 0, 1, 0], [-1, 0, 0, 0, -1], [0, 1, 0, -1, 0]][quarter]
    return [1, 0, 0, 0, 1] if matrix is None else np.frombuffer(bytes(matrix), np.int32).tolist()


def _on_black(picture: np.ndarray) -> np.ndarray:
    """[height, width, 4] → [height, width, 3]: what is transparent is black."""
    colour, alpha = picture[..., :3].astype(np.uint16), picture[..., 3:].astype(np.uint16)
    return ((colour * alpha + 127) // 255).astype(np.uint8)
