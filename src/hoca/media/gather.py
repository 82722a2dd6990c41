"""Collects the wanted frames while they pass by, no more than those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hoca.media.convert import Converter
from hoca.media.request import AtTimes, Pictures
from hoca.media.streams import Watch

Numbers = dict[str, list[int]]


def numbers(pictures: Mapping[str, Pictures], times: Sequence[float]) -> Numbers:
    """Which frames are wanted of a clip whose frames appear at `times`."""
    wanted = {}
    for name, each in pictures.items():
        chosen = each.pick.numbers(times) if isinstance(each.pick, AtTimes) else each.pick(len(times))
        wanted[name] = [int(number) for number in chosen]
        if not wanted[name] or min(wanted[name]) < 0 or max(wanted[name]) >= len(times):
            raise ValueError(f"{name}: the pick of {len(times)} frames must be numbers from 0 to {len(times) - 1}")
    return wanted


class Gatherer:
    def __init__(self, pictures: Mapping[str, Pictures], wanted: Numbers, watch: Watch) -> None:
        self.pictures = pictures
        self.wanted = wanted
        self.watch = watch
        self.arrays: dict[str, np.ndarray] = {}
        self.places: dict[int, dict[str, list[int]]] = {}  # frame number → name → places in its array
        for name, chosen in wanted.items():
            for place, number in enumerate(chosen):
                self.places.setdefault(number, {}).setdefault(name, []).append(place)
        self.converters = {(each.size, each.filter): Converter(each.size, each.filter) for each in pictures.values()}

    def add(self, number: int, frame: Any) -> None:
        self.watch.size(frame.width, frame.height)
        seen: dict[tuple[Any, str], np.ndarray] = {}
        for name, places in self.places.get(number, {}).items():
            each = self.pictures[name]
            kind = (each.size, each.filter)
            if kind not in seen:
                seen[kind] = self.converters[kind](frame)
            picture = each.transform(seen[kind]) if each.transform else seen[kind]
            if name not in self.arrays:
                self.arrays[name] = self._room(name, picture)
            for place in places:
                self.arrays[name][place] = picture

    def _room(self, name: str, picture: np.ndarray) -> np.ndarray:
        count = len(self.wanted[name])
        self.watch.room(count * picture.nbytes + sum(array.nbytes for array in self.arrays.values()))
        return np.empty((count, *picture.shape), picture.dtype)  # [F, height, width, 3]
