"""The paper's motion features without its repetition: each frame goes through the network once, chunks are windows.

Eighty chunks of 64 frames over a clip of 15 seconds are 5,120 frames, but the clip has 375. The network runs over the
stretches that chunks cover, and a chunk's feature is the mean of the outputs over its 64 frames. What differs from
running every chunk alone is the edge of a chunk, where the network would see padding and sees the clip instead.
"""

from __future__ import annotations

import numpy as np

from hoca.features.network import Network
from hoca.features.sampling import CHUNK, STRIDE, Chunks, window_means

PIECE = 512  # frames at a time, which bounds the memory
CONTEXT = 56  # frames beyond a piece that its outputs depend on, a multiple of the stride


def pooled(network: Network, frames: np.ndarray, chunks: Chunks, count: int) -> np.ndarray:
    """Frames uint8 [F, h, w, 3] of all chunks of a clip of `count` frames → [steps, width]."""
    starts = np.array(chunks.starts(count))
    means = []
    offset = 0
    for first, last in chunks.runs(count):
        outputs = in_pieces(network, frames[offset : offset + last - first])  # [T', width]
        inside = starts[(starts >= first) & (starts < last)]
        means.append(window_means(outputs, ((inside - first) / STRIDE).tolist(), CHUNK / STRIDE))
        offset += last - first
    return np.concatenate(means)


def one_by_one(network: Network, frames: np.ndarray, chunks: Chunks, count: int) -> np.ndarray:
    """The same, literally: every chunk alone."""
    numbers = {number: place for place, number in enumerate(_numbers(chunks, count))}
    features = [
        network(frames[[numbers[start + step] for step in range(CHUNK)]][None])[0].mean(0)
        for start in chunks.starts(count)
    ]
    return np.stack(features)


def in_pieces(network: Network, frames: np.ndarray) -> np.ndarray:
    """The network's outputs over a long stretch, a piece at a time, each with the context that its outputs see."""
    if len(frames) <= PIECE + CONTEXT:
        return network(frames[None])[0]
    outputs = []
    for first in range(0, len(frames), PIECE):
        before = min(first, CONTEXT)
        last = min(first + PIECE, len(frames))
        piece = network(frames[first - before : last + CONTEXT][None])[0]
        outputs.append(piece[before // STRIDE :][: -(-(last - first) // STRIDE)])
    return np.concatenate(outputs)


def _numbers(chunks: Chunks, count: int) -> list[int]:
    return [number for first, last in chunks.runs(count) for number in range(first, last)]
