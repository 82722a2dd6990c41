"""The paper's motion features (80 chunks of 64 frames) made in several ways: cost against similarity, on real clips.

    python benchmarks/paper_motion.py [--device auto] [--clips 3]

Each way is timed on the same decoded frames in the same run (on a CPU in processor seconds, which other programs do
not change much); cosines are with the chunks run one by one. Needs the research data (HOCA_DATA, or ../shared/data).
Writes results/paper-motion.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hoca import features, media
from hoca.bench import CONDITIONS, conditions
from hoca.features.network import Network
from hoca.features.sampling import CHUNK, Chunks
from hoca.features.stretches import one_by_one, pooled
from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data"))
FIELDS = ("clip", "frames", "way", "frames computed", "seconds", "times faster", "least cosine", "median cosine")
STEPS = 80
Way = Callable[[Network, np.ndarray, Chunks, int], np.ndarray]


def interpolated(count: int) -> Way:
    """`count` chunks run one by one, the others linearly between them."""

    def way(network: Network, frames: np.ndarray, chunks: Chunks, n: int) -> np.ndarray:
        starts = chunks.starts(n)
        anchors = np.linspace(0, len(starts) - 1, count).round().astype(int)
        made = np.stack([network(frames[starts[a] : starts[a] + CHUNK][None])[0].mean(0) for a in anchors])
        steps = np.arange(len(starts))
        return np.stack([np.interp(steps, anchors, column) for column in made.T], axis=1)

    return way


def corrected(count: int) -> Way:
    """Windows of one pass, moved by their mean difference from `count` chunks run one by one."""

    def way(network: Network, frames: np.ndarray, chunks: Chunks, n: int) -> np.ndarray:
        windows = pooled(network, frames, chunks, n)
        starts = chunks.starts(n)
        anchors = ((np.arange(count) + 0.5) * len(starts) / count).astype(int)
        made = np.stack([network(frames[starts[a] : starts[a] + CHUNK][None])[0].mean(0) for a in anchors])
        return np.maximum(windows + (made - windows[anchors]).mean(0), 0)

    return way


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * other).sum(-1) / (np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--clips", type=int, default=3)
    parser.add_argument("--frames", type=int, default=375, help="clips of about so many: 15 s at 25 a second")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "paper-motion.csv")
    chosen = parser.parse_args()
    specification = features.specify(image=None, audio=None, sampling="paper")
    extractor = features.Extractor(specification, device=chosen.device, precision=chosen.precision)
    network = extractor.networks["motion"]
    assert network is not None
    chunks = Chunks(STEPS)
    clock = time.perf_counter if network.device.type == "cuda" else time.process_time
    rows: list[dict[str, object]] = []
    for file in sorted((DATA / "msrvtt" / "clips").glob("*.mp4")):
        decoded = media.decode(extractor.request(file))
        n, frames = decoded.frames, decoded.pictures["motion"]
        if not 0.95 * chosen.frames <= n <= 1.05 * chosen.frames:
            continue
        ways: dict[str, tuple[Way, int]] = {
            "80 chunks one by one": (one_by_one, STEPS * CHUNK),
            "one pass, chunks as windows": (pooled, n),
            "the same, corrected at 2 chunks": (corrected(2), n + 2 * CHUNK),
            "8 chunks, the others between them": (interpolated(8), 8 * CHUNK),
        }
        network(frames[None, :CHUNK]), network(frames[None])  # choose algorithms, fill caches
        literal, literal_seconds = np.zeros(0), 0.0
        for name, (way, computed) in ways.items():
            begun = clock()
            made = way(network, frames, chunks, n)
            seconds = clock() - begun
            if way is one_by_one:
                literal, literal_seconds = made, seconds
            close = cosines(made, literal)
            values = (file.stem, n, name, computed, f"{seconds:.3f}", f"{literal_seconds / seconds:.1f}")
            rows.append(dict(zip(FIELDS, (*values, f"{close.min():.4f}", f"{np.median(close):.4f}"), strict=True)))
            print(*rows[-1].values(), sep="  ", flush=True)
        if len(rows) == chosen.clips * len(ways):
            break
    facts = conditions(network.device)
    with replacing(chosen.out) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, (*FIELDS, *CONDITIONS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | facts for row in rows)


if __name__ == "__main__":
    main()
