"""Clips of any lengths one after another in time, so that a network with SAME padding sees each as if it were alone.

cuDNN plans every convolution anew for each shape it meets, in each thread, which takes longer than computing it. Clips
have all lengths; tapes have few. Between the clips are gaps, which are kept at zero, as padding is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor

from hoca.networks.padding import same_padding

Span = tuple[int, int]  # first and last + 1

GAP = 1  # steps of the last level between two clips, which no kernel of 3 looks across


class Tape:
    """Where each clip lies, level by level: `halvings` are (kernel, stride) of the layers from a level to the next."""

    def __init__(self, lengths: Sequence[int], halvings: Sequence[tuple[int, int]], rounded_to: int) -> None:
        """rounded_to: the tape's length is a multiple of it, and it of the product of all strides."""
        self.spans = []  # of each clip, in every level
        place = 0
        for length in lengths:
            self.spans.append(_spans(length, place, halvings))
            place = self.spans[-1][-1][1] + GAP
        steps = place - GAP
        for _, stride in halvings:
            steps *= stride
        self.length = -(-steps // rounded_to) * rounded_to
        self._gaps: dict[int, list[Span]] = {}  # length of a level → what no clip has
        size = self.length
        for level in range(len(halvings) + 1):
            edges = [0, *(edge for spans in self.spans for edge in spans[level]), size]
            self._gaps[size] = [gap for gap in list(pairwise(edges))[::2] if gap[0] < gap[1]]
            size //= halvings[level][1] if level < len(halvings) else 1

    def clear(self, x: Tensor) -> Tensor:
        """[1, C, T, h, w] with the gaps set to zero."""
        for first, last in self._gaps[x.shape[2]]:
            x[:, :, first:last] = 0
        return x


def _spans(length: int, place: int, halvings: Sequence[tuple[int, int]]) -> list[Span]:
    """A clip's spans in all levels, if it begins at `place` of the last.

    Alone, it is padded in front by as much as suits its length; the tape, whose length has the factors, by another.
    """
    lengths = [length]
    for _, stride in halvings:
        lengths.append(-(-lengths[-1] // stride))
    spans = [(place, place + lengths[-1])]
    for size, (kernel, stride) in zip(lengths[-2::-1], reversed(halvings), strict=True):
        place = stride * place + same_padding(size, kernel, stride)[0] - (kernel - stride) // 2
        spans.append((place, place + size))
    return spans[::-1]


def packed(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Numbers of the clips that share a tape: the longest first, each on the first tape with room for it."""
    tapes: list[list[int]] = []
    room: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        fits = (tape for tape in range(len(tapes)) if lengths[number] <= room[tape])
        tape = next(fits, len(tapes))
        if tape == len(tapes):
            tapes.append([])
            room.append(most)
        tapes[tape].append(number)
        room[tape] -= lengths[number]
    return tapes
