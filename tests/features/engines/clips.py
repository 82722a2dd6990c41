"""Small clips and the features without weights, which are made in milliseconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hoca import media

LIGHT = ("--image", "light-image", "--motion", "light-motion", "--audio", "light-audio")


def write_clip(path: Path, *, seed: int = 0, sound: bool = True, frames: int = 12, side: int = 64) -> Path:
    generator = np.random.default_rng(seed)
    pictures = np.full((frames, side, side, 3), 30, np.uint8)
    for number, picture in enumerate(pictures):
        picture[side // 4 : side // 2, number : number + side // 4] = generator.integers(60, 256, 3)
    rate = 16000
    tone = 0.3 * np.sin(2 * np.pi * (300 + 50 * seed) * np.arange(frames * rate // 10) / rate)
    path.parent.mkdir(parents=True, exist_ok=True)
    media.write(path, pictures, 10, tone.astype(np.float32) if sound else None, rate)
    return path


def broken_links(folder: Path) -> list[Path]:
    """One link to nothing, and two that lead to each other."""
    folder.mkdir(parents=True, exist_ok=True)
    links = [folder / f"{name}.mp4" for name in ("gone", "round", "circle")]
    for link, target in zip(links, ("nowhere.mp4", "circle.mp4", "round.mp4"), strict=True):
        link.symlink_to(folder / target)
    return links
