"""Leave modalities of training videos out at random, so that each learns to stand in for another."""

from __future__ import annotations

from dataclasses import replace

import torch

from hoca.data import Batch


def leave_out(batch: Batch, chance: float) -> Batch:
    """Each modality that a video has is made missing with this chance; where all would be, all stay."""
    if not chance:
        return batch
    lengths = torch.stack(list(batch.lengths.values()))  # [N, B]
    kept = lengths * (torch.rand(lengths.shape) >= chance)
    kept = torch.where(kept.sum(0) > 0, kept, lengths)
    return replace(batch, lengths=dict(zip(batch.lengths, kept.unbind(), strict=True)))
