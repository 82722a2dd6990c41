"""Pictures scaled as image networks were trained on: Pillow's bicubic. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bicubic:
    """uint8 [height, width, 3] → uint8 [side, side, 3]; the filter widens as the picture shrinks: nothing aliases.

    Pillow's cubic has a sharpness of -0.5; libswscale's, -0.6, changes features noticeably.
    """

    side: int

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        from PIL import Image

        return np.asarray(Image.fromarray(picture).resize((self.side, self.side), Image.Resampling.BICUBIC))
