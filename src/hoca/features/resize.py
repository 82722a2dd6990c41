"""Pictures scaled as image networks were trained on: bicubic, as Pillow does it. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

SHARPNESS = -0.5  # of the cubic: Catmull and Rom's, as Pillow has it; libswscale's is -0.6, which features notice


@dataclass(frozen=True)
class Bicubic:
    """uint8 [height, width, 3] → uint8 [side, side, 3]; the filter widens as the picture shrinks: nothing aliases."""

    side: int

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        height, width = picture.shape[:2]
        narrow = np.tensordot(_weights(width, self.side), picture.astype(np.float32), (1, 1))  # [side, height, 3]
        small = np.tensordot(_weights(height, self.side), _levels(narrow), (1, 1))  # [side, side, 3]
        return _levels(small).astype(np.uint8)


def _levels(values: np.ndarray) -> np.ndarray:
    """Whole levels in range. Pillow brings the half-way result to them too: what overshoots there is cut off."""
    return np.rint(values).clip(0, 255)


@lru_cache(maxsize=16)
def _weights(size: int, side: int) -> np.ndarray:
    """[side, size]: how much each source row counts for each row of the result; rows beyond the edge count nothing."""
    scale = size / side
    reach = max(scale, 1.0)
    centres = (np.arange(side) + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - centres[:, None]) / reach
    near = ((SHARPNESS + 2) * distance - (SHARPNESS + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * SHARPNESS - 4 * SHARPNESS
    weights = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
