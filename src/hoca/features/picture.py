"""What stands out in small pictures: where, how large, and its outline at a fixed size, for a whole stack at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

SIDE = 64  # every picture is brought to this size first
PATCH = 8


def shrink(picture: np.ndarray) -> np.ndarray:
    """uint8 [height, width, 3] → uint8 [64, 64, 3] by area; a picture that has this size already stays untouched."""
    height, width = picture.shape[:2]
    if (height, width) == (SIDE, SIDE):
        return picture
    rows = np.tensordot(_area_weights(height), picture.astype(np.float32), axes=(1, 0))  # [64, width, 3]
    small = np.einsum("sw,hwc->hsc", _area_weights(width), rows, optimize=True)  # [64, 64, 3]
    return np.rint(small).clip(0, 255).astype(np.uint8)


@lru_cache(maxsize=16)
def _area_weights(size: int) -> np.ndarray:
    """[64, size]: row i averages the source pixels that the i-th of 64 equal cells covers."""
    edges = np.linspace(0, size, SIDE + 1)[:, None]
    covered = np.clip(edges[1:] - np.arange(size), 0, 1) - np.clip(edges[:-1] - np.arange(size), 0, 1)
    return (covered / covered.sum(1, keepdims=True)).astype(np.float32)


def cell_means(values: np.ndarray, cells: int) -> np.ndarray:
    """[F, 64, 64] → means over cells × cells equal squares [F, cells²]."""
    pool = np.kron(
        np.eye(cells, dtype=np.float32), np.full((1, SIDE // cells), cells / SIDE, np.float32)
    )  # [cells, 64]
    return (pool @ values @ pool.T).reshape(len(values), -1)


class Salient:
    """Mass, centre and extent of weights [F, 64, 64] ≥ 0 in each picture, coordinates in [-1, 1]."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights
        axis = ((np.arange(SIDE) + 0.5) / SIDE * 2 - 1).astype(np.float32)
        along_x, along_y = weights.sum(1), weights.sum(2)  # [F, 64] each
        total = along_x.sum(1)
        safe = np.maximum(total, 1e-6)
        self.mass = total / SIDE**2  # [F]
        self.x, self.y = along_x @ axis / safe, along_y @ axis / safe
        variance = (along_x @ axis**2 + along_y @ axis**2) / safe - self.x**2 - self.y**2
        self.extent = np.sqrt(np.maximum(variance, 1e-4))
        self.present = total > 4.0  # in pixels' worth of weight

    def patches(self) -> np.ndarray:
        """[F, 64]: the weights around the centre on 8 × 8 points, at a scale that follows the extent; max 1."""
        points = (np.arange(PATCH) + 0.5) / PATCH * 2 - 1
        reach = (1.7 * self.extent)[:, None] * points  # [F, 8]
        columns, rows = _pixel(self.x[:, None] + reach), _pixel(self.y[:, None] + reach)
        values = _bilinear(self.weights, rows, columns)  # [F, 8, 8]
        peak = np.maximum(values.max((1, 2), keepdims=True), 1e-3)
        return (values / peak * self.present[:, None, None]).reshape(len(values), -1)


def _pixel(coordinate: np.ndarray) -> np.ndarray:
    return ((coordinate + 1) / 2 * SIDE - 0.5).clip(0, SIDE - 1.001)


def _bilinear(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """values [F, 64, 64] at the crossings of rows [F, 8] and columns [F, 8] → [F, 8, 8]."""
    top, left = rows.astype(int), columns.astype(int)
    down, right = (rows - top)[:, :, None], (columns - left)[:, None, :]
    top, left, number = top[:, :, None], left[:, None, :], np.arange(len(values))[:, None, None]
    upper = values[number, top, left] * (1 - right) + values[number, top, left + 1] * right
    lower = values[number, top + 1, left] * (1 - right) + values[number, top + 1, left + 1] * right
    return upper * (1 - down) + lower * down
