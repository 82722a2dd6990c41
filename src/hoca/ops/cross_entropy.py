"""-log p of given words, in float32 whatever the type of the scores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.ops import has_triton


def cross_entropy(logits: Tensor, targets: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """logits [M, V], targets [M] → [M], 0 where the target is `pad`.

    bf16 scores on a GPU are read as they are, once in each direction: torch would round the log-probabilities to bf16
    and copy them, and their gradient, to float32.
    """
    if logits.is_cuda and logits.dtype == torch.bfloat16 and not smoothing and has_triton():
        from hoca.ops.cross_entropy_kernels import CrossEntropy

        return CrossEntropy.apply(logits, targets, pad)
    return F.cross_entropy(logits, targets, ignore_index=pad, reduction="none", label_smoothing=smoothing)
