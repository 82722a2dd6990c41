"""Which captions go into which batch of an epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

POOL_BATCHES = 50  # items are sorted by length within so many batches' worth, and shuffled otherwise
JITTER = 2  # words: captions of a video are cut into chunks of like length, but other chunks in each epoch


@dataclass(frozen=True)
class Plan:
    """An epoch laid out: captions in their shuffled order, items as slices of it, batches as slices of the items."""

    order: np.ndarray  # [captions], caption numbers; those of an item stand together
    first: np.ndarray  # [items], where an item's captions begin in `order`
    count: np.ndarray  # [items]
    owner: np.ndarray  # [items], the number of the item's video
    batches: list[np.ndarray]  # item numbers of each batch

    @classmethod
    def make(
        cls,
        owner: np.ndarray,
        counts: np.ndarray,
        steps: np.ndarray,
        *,
        chunk: int | None,
        batch: int,
        seed: tuple[int, int],
        bucket: bool,
    ) -> Plan:
        """Lay out an epoch.

        owner: [captions], the number of each caption's video. counts: [captions], words of each caption.
        steps: [videos], time steps of each video. chunk: captions in an item, None = all of the video.
        """
        random = _random(seed)
        order = random.permutation(len(owner))
        if bucket:
            order = order[np.argsort(counts[order] + JITTER * random.random_sample(len(order)), kind="stable")]
        order = order[np.argsort(owner[order], kind="stable")]  # the captions of a video together
        first, count = _chunks(owner[order], chunk)
        item_owner = owner[order][first]
        items = random.permutation(len(first))
        if bucket:
            longest = np.maximum.reduceat(counts[order], first)
            items = _bucketed(items, (steps[item_owner], count, longest), POOL_BATCHES * batch)
        batches = [items[start : start + batch] for start in range(0, len(items), batch)]
        return cls(order, first, count, item_owner, [batches[i] for i in random.permutation(len(batches))])

    def __len__(self) -> int:
        return len(self.batches)

    def items(self, number: int) -> np.ndarray:
        return self.batches[number]

    def captions(self, item: int) -> np.ndarray:
        return self.order[self.first[item] : self.first[item] + self.count[item]]

    def video(self, item: int) -> int:
        return int(self.owner[item])


def _random(seed: tuple[int, int]) -> np.random.RandomState:
    """A generator whose numbers are frozen for all versions of numpy, as those of `default_rng` are not."""
    words = [part >> shift & 0xFFFFFFFF for part in seed for shift in (0, 32)]
    return np.random.RandomState(words)


def _chunks(owner: np.ndarray, chunk: int | None) -> tuple[np.ndarray, np.ndarray]:
    """First place and size of the chunks into which each run of equal owners is cut."""
    place = np.arange(len(owner))
    begins = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    within = place - np.repeat(begins, np.diff(np.r_[begins, len(owner)]))
    first = begins if chunk is None else np.flatnonzero(within % chunk == 0)
    return first, np.diff(np.r_[first, len(owner)])


def _bucketed(items: np.ndarray, keys: tuple[np.ndarray, ...], pool: int) -> np.ndarray:
    """Items sorted within each pool, by the last key first."""
    pools = (items[start : start + pool] for start in range(0, len(items), pool))
    return np.concatenate([each[np.lexsort([key[each] for key in keys])] for each in pools])
