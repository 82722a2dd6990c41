from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from hoca.features.resize import Bicubic


@pytest.mark.parametrize(("height", "width"), [(240, 320), (1, 1), (37, 501), (260, 260), (100, 90), (720, 405)])
@pytest.mark.parametrize("side", [224, 260])
def test_it_scales_as_pillow_does(height: int, width: int, side: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.BICUBIC))
    found = Bicubic(side)(picture)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
