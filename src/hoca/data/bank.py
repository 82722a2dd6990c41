"""Features in memory, from which a padded batch is one gather per modality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

Lengths = Mapping[str, Mapping[str, int]]  # video id -> modality -> time steps


class FeatureBank:
    """Per modality one tensor [1 + sum of T, width]: row 0 is zeros, for padding; the videos follow one another."""

    def __init__(
        self,
        lengths: Lengths,
        widths: Mapping[str, int],
        read: Callable[[str], Mapping[str, np.ndarray]],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.lengths = lengths
        self._first: dict[str, dict[str, int]] = {name: {} for name in widths}
        rows = dict.fromkeys(widths, 1)
        for id, steps in lengths.items():
            for name, count in steps.items():
                self._first[name][id] = rows[name]
                rows[name] += count
        self.values = {name: torch.zeros(rows[name], width, dtype=dtype) for name, width in widths.items()}
        for id in lengths:
            for name, values in read(id).items():
                self[id, name].copy_(torch.from_numpy(values))
        self.values = {name: values.to(device) for name, values in self.values.items()}

    def __getitem__(self, key: tuple[str, str]) -> Tensor:
        """The features [T, width] of one modality of one video."""
        id, name = key
        first = self._first[name][id]
        return self.values[name][first : first + self.lengths[id][name]]

    def padded(self, ids: Sequence[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Features [B, T_m, D_m] float32 with zeros after the end, and lengths [B] on the CPU, 0 = missing.

        T_m is the longest length among these videos, at least 1.
        """
        features, lengths = {}, {}
        for name, values in self.values.items():
            length = np.array([self.lengths[id].get(name, 0) for id in ids], dtype=np.int64)
            first = np.array([self._first[name].get(id, 0) for id in ids], dtype=np.int64)
            step = np.arange(max(1, length.max(initial=0)))
            row = np.where(step < length[:, None], first[:, None] + step, 0)  # [B, T]
            index = torch.from_numpy(row.ravel()).to(values.device, non_blocking=True)
            features[name] = values.index_select(0, index).float().view(*row.shape, -1)  # [B, T, D]
            lengths[name] = torch.from_numpy(length)
        return features, lengths
