"""Drop parts of training videos at random: modalities, so that each learns to stand in for another, or time steps."""

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


def drop_steps(batch: Batch, probability: float) -> Batch:
    """Each step of each modality is dropped with this probability, and the others move up; at least one stays."""
    if not probability:
        return batch
    features, lengths = {}, {}
    for modality, x in batch.features.items():  # [B, T, D]
        real = torch.arange(x.shape[1]) < batch.lengths[modality][:, None]  # [B, T]
        kept = real & (torch.rand(real.shape) >= probability)
        kept[:, 0] |= real[:, 0] & ~kept.any(1)
        order = (~kept).to(torch.uint8).argsort(dim=1, stable=True).to(x.device, non_blocking=True)
        features[modality] = x.gather(1, order[..., None].expand_as(x))
        lengths[modality] = kept.sum(1)
    return replace(batch, features=features, lengths=lengths)
