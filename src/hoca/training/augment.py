"""Drop modalities of training videos at random, so that each learns to stand in for another."""

from __future__ import annotations

from dataclasses import replace

import torch

from hoca.data import Batch


def drop_modalities(batch: Batch, probability: float) -> Batch:
    """Each modality that a video has is made missing with this probability; where all would be, all stay."""
    if not probability:
        return batch
    lengths = torch.stack(list(batch.lengths.values()))  # [N, B]
    kept = lengths * (torch.rand(lengths.shape) >= probability)
    kept = torch.where(kept.sum(0) > 0, kept, lengths)
    return replace(batch, lengths=dict(zip(batch.lengths, kept.unbind(), strict=True)))
