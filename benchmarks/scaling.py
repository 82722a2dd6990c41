"""How frames become small RGB pictures: one step of libswscale, with its default flags and with those of hoca.media.

    python benchmarks/scaling.py VIDEO...                    # default: clips of the research data

The reference is the long way: the whole frame to RGB with full chroma, then float64 weights, Pillow's cubic kernel or
exact areas. Differences are in levels of 0–255; times are ratios to that of `hoca.media`, all of one run. The table
goes to results/scaling.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hoca.errors import UserError
from hoca.files import replacing
from hoca.media.convert import Converter

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data"))
SIZES = {"bicubic": 260, "area": 224}
FRAMES = 10  # of each video


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("videos", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "scaling.csv")
    options = parser.parse_args()
    videos = options.videos or [*sorted((DATA / "msrvtt" / "clips").glob("*.mp4"))[::10], *DATA.glob("reference/*.mp4")]
    if not videos:
        raise SystemExit(str(UserError(f"no videos in {DATA}: name some, or set HOCA_DATA")))
    frames = [frame for video in videos for frame in decoded(video)]
    rows = [row for filter in SIZES for row in compare(frames, filter)]
    with replacing(options.out) as temporary, temporary.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))


def decoded(video: Path) -> list[Any]:
    import av

    with av.open(f"file:{video}", metadata_errors="ignore") as container:
        return list(islice(container.decode(video=0), FRAMES))


def compare(frames: list[Any], filter: str) -> list[dict[str, Any]]:
    side = SIZES[filter]
    references = [long_way(frame, filter, side) for frame in frames]
    ways: dict[str, Callable[[], Callable[[Any], np.ndarray]]] = {
        "hoca.media": lambda: Converter((side, side), filter),
        "default flags": lambda: plain(filter, side),
        "RGB, then Pillow": lambda: lambda frame: pillow(frame, filter, side),
    }
    rows, unit = [], 0.0
    for name, make in ways.items():
        convert = make()
        start = time.perf_counter()
        pictures = [convert(frame) for frame in frames]
        seconds = time.perf_counter() - start
        unit = unit or seconds
        pairs = zip(pictures, references, strict=True)
        errors = np.concatenate([(picture - reference).ravel() for picture, reference in pairs])
        rows.append(
            {
                "filter": filter,
                "way": name,
                "frames": len(frames),
                "mean_error": f"{np.abs(errors).mean():.2f}",
                "mean_bias": f"{errors.mean():+.2f}",
                "time": f"{seconds / unit:.1f}",
            }
        )
    return rows


def plain(filter: str, side: int) -> Callable[[Any], np.ndarray]:
    from av.video.reformatter import Interpolation

    converter = Converter((side, side), filter)
    converter.flags = converter.limited_range_flags = Interpolation[filter.upper()]
    return converter


def pillow(frame: Any, filter: str, side: int) -> np.ndarray:
    kernel = {"bicubic": Image.Resampling.BICUBIC, "area": Image.Resampling.BOX}[filter]
    return np.asarray(Image.fromarray(Converter()(frame)).resize((side, side), kernel))


def long_way(frame: Any, filter: str, side: int) -> np.ndarray:
    whole = Converter()(frame).astype(np.float64)  # [height, width, 3]
    rows, columns = (weights(length, side, filter) for length in whole.shape[:2])
    picture = np.einsum("yh,hwc,xw->yxc", rows, whole, columns, optimize=True)
    return np.clip(picture, 0, 255)


def weights(old: int, new: int, filter: str) -> np.ndarray:
    """[new, old]: the share of each old pixel in each new one."""
    scale = max(old / new, 1.0)
    if filter == "area":
        edges = np.arange(new + 1) * old / new
        inside = np.minimum(edges[1:, None], np.arange(old) + 1) - np.maximum(edges[:-1, None], np.arange(old))
        table = np.maximum(inside, 0)
    else:  # the cubic kernel with a = −½, widened when shrinking
        x = np.abs(np.arange(old)[None] + 0.5 - (np.arange(new)[:, None] + 0.5) * old / new) / scale
        table = np.where(x < 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))
    return table / table.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    main()
