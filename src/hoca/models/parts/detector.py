"""The words that captions of a video would have, seen in the mean of its features: a second opinion on sentences.

Detected words helped to choose among sentences before (Fang et al., 2015, "From captions to visual concepts and back");
the paper has none of this.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.models.config import ModelConfig
from hoca.models.parts.features import step_mask


class Detector(nn.Module):
    """Two layers over the standardised means of `config.word_detector`, one after the other.

    A missing modality contributes zeros, as an average one does after standardising.

    Its numbers are buffers: `hoca.training.detector.fit` finds them, and training a captioner leaves them alone.
    """

    mean: Tensor
    scale: Tensor
    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor

    def __init__(self, config: ModelConfig, words: int) -> None:
        super().__init__()
        self.widths = {modality: config.modalities[modality] for modality in config.word_detector}
        width, hidden = sum(self.widths.values()), 2 * config.hidden
        shapes = {"mean": (width,), "scale": (width,), "inner": (hidden, width), "inner_bias": (hidden,)}
        for name, shape in (shapes | {"outer": (words, hidden), "outer_bias": (words,)}).items():
            self.register_buffer(name, torch.zeros(shape))

    def forward(self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor]) -> Tensor:
        """features[m] [B, T_m, D_m], lengths[m] [B] → [B, V]: each word's log-odds, above those in any video."""
        rows, sizes = len(next(iter(features.values()))), list(self.widths.values())
        parts = []
        for modality, mean, scale in zip(self.widths, self.mean.split(sizes), self.scale.split(sizes), strict=True):
            if modality in features:
                parts.append(torch.nan_to_num((means(features[modality], lengths[modality]) - mean) * scale))
            else:
                parts.append(mean.new_zeros(rows, len(mean)))
        hidden = F.relu(F.linear(torch.cat(parts, 1), self.inner, self.inner_bias))
        return F.linear(hidden, self.outer, self.outer_bias)


def means(features: Tensor, length: Tensor) -> Tensor:
    """[B, T, D] → [B, D], of square roots, which tame spikes, over the real steps; NaN where there are none."""
    real = step_mask(length, features.shape[1], features.device)[..., None]  # [B, T, 1]
    roots = features.abs().sqrt().copysign(features)
    return roots.masked_fill(~real, 0.0).sum(1) / real.sum(1)
