"""The features of a batch of videos, checked: which modalities there are, and which of their steps are real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hoca.errors import UserError, nearest
from hoca.models.config import ModelConfig


@dataclass(frozen=True)
class FeatureBatch:
    """Only modalities that some video has, in the model's order."""

    features: dict[str, Tensor]  # [B, T_m, D_m]
    lengths: dict[str, Tensor]  # [B], 0 = missing
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real
    present: dict[str, Tensor]  # [B] bool
    ragged: frozenset[str]  # the modalities whose masks may have a False

    @classmethod
    def of(cls, config: ModelConfig, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor]) -> FeatureBatch:
        """features[m] [B, T_m, D_m], lengths[m] [B]; without a length, every step of every video is real.

        Steps that are padding for every video are cut off. Lengths on a GPU are not looked at: nothing is cut then, any
        of the features may be padded, and each video must have a modality.
        """
        for modality in [*features, *lengths]:
            if modality not in config.modalities:
                raise UserError(f"the model has no modality {modality!r}: {nearest(modality, config.modalities)}")
        given = {m: features[m] for m in config.modalities if m in features}
        for modality, x in given.items():
            if x.shape[2] != config.modalities[modality]:
                raise UserError(
                    f"{modality} features have width {x.shape[2]}, the model was made for {config.modalities[modality]}"
                )
        on_device = [m for m in given if m in lengths and lengths[m].is_cuda]
        if on_device:
            real = {m: lengths.get(m, torch.full((len(x),), x.shape[1], device=x.device)) for m, x in given.items()}
            ragged = frozenset(on_device)
        else:
            given, real, ragged = _looked_at(given, lengths)
        for modality, x in given.items():
            if x.shape[1] > config.max_steps[modality]:
                raise UserError(
                    f"{modality} features have {x.shape[1]} steps, the model takes at most "
                    f"{config.max_steps[modality]}: sample fewer, or train with a larger max_steps"
                )
        masks = {m: step_mask(real[m], x.shape[1], x.device) for m, x in given.items()}
        return cls(given, real, masks, {m: mask[:, 0] for m, mask in masks.items()}, ragged)


def _looked_at(
    given: dict[str, Tensor], lengths: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor], frozenset[str]]:
    features, kept = {}, {}
    for modality, x in given.items():
        length = lengths[modality].cpu() if modality in lengths else torch.full((len(x),), x.shape[1])
        longest = int(length.max())
        if longest > x.shape[1]:
            raise UserError(f"lengths[{modality!r}] says {longest} steps, the features have {x.shape[1]}")
        if longest > 0:
            features[modality], kept[modality] = x[:, :longest], length
    if not kept:
        raise UserError("no video of the batch has any modality: at least one is needed")
    empty = torch.stack(list(kept.values())).sum(0) == 0
    if bool(empty.any()):
        raise UserError(f"video {int(empty.nonzero()[0])} of the batch has no modality: at least one is needed")
    ragged = frozenset(m for m, x in features.items() if bool((kept[m] < x.shape[1]).any()))
    return features, kept, ragged


def step_mask(length: Tensor, steps: int, device: torch.device) -> Tensor:
    """[B] → [B, T] bool, True = real."""
    return torch.arange(steps, device=device) < length.to(device, non_blocking=True)[:, None]
