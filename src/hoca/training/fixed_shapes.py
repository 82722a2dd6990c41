"""Batches in a few fixed shapes, so that a step captured for one of them serves many batches.

Sizes are rounded up, videos filled up, and of all places of the words only those that hold one are kept: attention and
the words' scores, which cost most, are not computed for padding. The loss and its gradient stay what they were.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from hoca.data import Batch

WEIGHTS = "caption weights"


@dataclass(frozen=True)
class Shape:
    videos: int  # B
    captions: int  # R
    words: int  # L
    places: int  # Q, of words that are predicted, per video
    steps: tuple[tuple[str, int], ...]  # T of every modality that is there
    ragged: frozenset[str]  # the modalities of which some video may have fewer steps
    values: tuple[tuple[str, tuple[int, ...], torch.dtype], ...] = ()  # what the batch carries besides, per video

    def parts(self) -> dict[str, tuple[int, ...]]:
        """The whole numbers of a batch, in the order in which they lie in one piece of memory."""
        places = self.videos, self.places
        return {
            "words": (self.videos, self.captions, self.words + 1),
            "places": places,
            "targets": places,
            "category": (self.videos,),
            "count": (),  # captions of the global batch
            **{f"length {modality}": (self.videos,) for modality, _ in self.steps},
        }


class Features(dict[str, Tensor]):
    """Those of a batch, [B, T_m, D_m]: the largest of a step's inputs, shared by all shapes that agree in them."""


class Inputs:
    """The tensors that a step of one shape reads, always at the same addresses."""

    def __init__(
        self,
        shape: Shape,
        widths: Mapping[str, int],
        device: torch.device,
        shared: WeakValueDictionary[Hashable, Features] | None = None,
    ) -> None:
        self.shape = shape
        shared = WeakValueDictionary() if shared is None else shared
        found = shared.get((shape.videos, shape.steps))
        if found is None:
            found = Features({m: torch.zeros(shape.videos, t, widths[m], device=device) for m, t in shape.steps})
            shared[shape.videos, shape.steps] = found
        self.features = found
        sizes = {name: prod(part) for name, part in shape.parts().items()}
        self._numbers = torch.zeros(sum(sizes.values()), dtype=torch.long, device=device)
        pieces = self._numbers.split(list(sizes.values()))
        views = {name: x.view(part) for (name, part), x in zip(shape.parts().items(), pieces, strict=True)}
        self.lengths = {modality: views[f"length {modality}"] for modality, _ in shape.steps}
        self.words, self.places, self.targets = views["words"], views["places"], views["targets"]
        self.category, self.count = views["category"], views["count"]
        self.values = {
            name: torch.zeros(shape.videos, *size, dtype=dtype, device=device) for name, size, dtype in shape.values
        }

    def batch(self) -> Batch:
        """The same as a batch, whose lengths are on the device."""
        others = {name: values for name, values in self.values.items() if name != WEIGHTS}
        weights = self.values.get(WEIGHTS)
        return Batch([], self.features, self.lengths, self.words, 0, 0, self.category, weights, others)

    def place_weights(self) -> Tensor | None:
        """The weight of the caption that each place belongs to, [B, Q]; None: all count the same."""
        if WEIGHTS not in self.values:
            return None
        return self.values[WEIGHTS].gather(1, self.places // self.shape.words)

    def fill(self, batch: Batch, numbers: Tensor) -> None:
        """Copy a batch of this shape and its `numbers`, as `lay_out` gives them, to where the step reads them."""
        self._numbers.copy_(self._pinned(numbers), non_blocking=True)
        for modality, place in self.features.items():
            values = batch.features[modality][:, : place.shape[1]]
            if values.shape != place.shape:
                place.zero_()  # a NaN that an earlier batch left would reach the gradient, masked or not
            place[: values.shape[0], : values.shape[1]].copy_(values, non_blocking=True)
        self.fill_values(batch)

    def fill_values(self, batch: Batch) -> None:
        """Copy what the batch carries besides features and words."""
        for name, values in _values(batch).items():
            self.values[name].zero_()
            place = self.values[name][tuple(slice(size) for size in values.shape)]
            place.copy_(self._pinned(values), non_blocking=True)

    def _pinned(self, values: Tensor) -> Tensor:
        """In memory from which a GPU copies while the host goes on; as they are where there is none."""
        return values.pin_memory() if self._numbers.is_cuda and not values.is_cuda else values


def lay_out(batch: Batch, *, videos: int, pad: int, max_steps: Mapping[str, int]) -> tuple[Shape, Tensor]:
    """The shape that a batch (its words on the CPU) is computed in, and its whole numbers in the order of `parts`.

    Videos added to make up the number have every modality and no word. Where a video has fewer words than places, the
    rest point to its first word and have no target.
    """
    given = batch.words.numpy()  # [B, R, L + 1]
    count, rows, columns = given.shape
    words = np.full((videos, rounded(rows, 1), rounded(columns - 1, 8) + 1), pad, dtype=np.int64)
    words[:count, :rows, :columns] = given
    targets = words[:, :, 1:].reshape(videos, -1)  # [B, R·L]
    said = targets != pad
    most = min(rounded(max(1, int(said.sum(1).max())), 16), said.shape[1])
    places = np.argsort(~said, axis=1, kind="stable")[:, :most]
    targets = np.take_along_axis(targets, places, axis=1)
    places[targets == pad] = 0
    lengths, steps, ragged = {}, {}, False
    for modality, length in batch.lengths.items():
        longest = int(length.max())
        if longest:
            steps[modality] = min(next_power_of_two(longest), max_steps[modality])
            lengths[modality] = np.full(videos, steps[modality], dtype=np.int64)
            lengths[modality][:count] = length.numpy()
            ragged |= bool(lengths[modality].min() < steps[modality])
    category = np.full(videos, -1, dtype=np.int64)
    if batch.category is not None:
        category[:count] = batch.category.numpy()
    padded = frozenset(steps if ragged else ())
    values = tuple(
        (name, (words.shape[1],) if name == WEIGHTS else tuple(x.shape[1:]), x.dtype)
        for name, x in _values(batch).items()
    )
    shape = Shape(videos, words.shape[1], words.shape[2] - 1, most, tuple(steps.items()), padded, values)
    whole = [words, places, targets, category, np.array(batch.global_caption_count), *lengths.values()]
    return shape, torch.from_numpy(np.concatenate([part.ravel() for part in whole]))


def _values(batch: Batch) -> dict[str, Tensor]:
    return ({} if batch.weights is None else {WEIGHTS: batch.weights}) | batch.targets


def rounded(size: int, least: int) -> int:
    """The next multiple of `least`, or from 16 of them on the next of eight sizes between powers of two."""
    step = max(least, 2 ** (size.bit_length() - 1) // 8)
    return -(-size // step) * step


def next_power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
