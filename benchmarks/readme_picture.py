"""The README's picture: frames of a clip above the figure that `hoca explain` draws of it.

python benchmarks/readme_picture.py CLIP FIGURE OUT
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hoca import media
from hoca.files import replacing

FRAMES = 10
GAP = 10  # pixels between frames


def strip(frames: np.ndarray, width: int) -> np.ndarray:
    """Frames in a row on white, enlarged by whole pixels. frames [F, h, w, 3] uint8 → [height, width, 3] uint8."""
    scale = max(1, (width // len(frames) - GAP) // frames.shape[2])
    large = frames.repeat(scale, axis=1).repeat(scale, axis=2)
    height, side = large.shape[1:3]
    row = np.full((height + 2 * GAP, width, 3), 255, np.uint8)
    for number, frame in enumerate(large):
        left = number * width // len(large) + (width // len(large) - side) // 2
        row[GAP : GAP + height, left : left + side] = frame
    return row


def main() -> None:
    from matplotlib import image

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("figure", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    figure = (image.imread(options.figure)[:, :, :3] * 255).round().astype(np.uint8)  # [height, width, 3]
    frames = media.read(options.clip, rate=None).frames
    chosen = frames[(np.arange(FRAMES) + 0.5).astype(int) * len(frames) // FRAMES]
    with replacing(options.out) as temporary:
        image.imsave(temporary, np.concatenate((strip(chosen, figure.shape[1]), figure)), format="png")
    print(options.out)


if __name__ == "__main__":
    main()
