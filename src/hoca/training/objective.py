"""What training minimises (eq. 24)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def caption_loss(logits: Tensor, words: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """-log p of the captions, summed over all words: logits [B, R, L, V], words [B, R, L + 1] with <bos> first.

    The caller divides by the captions of the global batch, so that the loss is a mean over captions.
    """
    targets = words[:, :, 1:].flatten()  # [B·R·L]
    return F.cross_entropy(  # eq. 24
        logits.flatten(0, 2), targets, ignore_index=pad, reduction="sum", label_smoothing=smoothing
    )
