"""-log p of given words, in float32 or wider whatever the type of the scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.ops import has_triton

CHUNK = 1 << 18  # scores that a CPU works on at a time: they stay in its cache


def cross_entropy(logits: Tensor, targets: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """logits [M, V], targets [M] → [M], 0 where the target is `pad`.

    bf16 scores on a GPU are read as they are, once in each direction: torch would round the log-probabilities to bf16
    and copy them, and their gradient, to float32.
    """
    if not logits.is_cuda:
        return ChunkedCrossEntropy.apply(logits, targets, pad, smoothing)
    if logits.dtype == torch.bfloat16 and not smoothing and has_triton():
        from hoca.ops.cross_entropy_kernels import CrossEntropy

        return CrossEntropy.apply(logits, targets, pad)
    return reference(logits, targets, pad, smoothing)


def reference(logits: Tensor, targets: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """The same as torch has it."""
    return F.cross_entropy(logits, targets, ignore_index=pad, reduction="none", label_smoothing=smoothing)


class ChunkedCrossEntropy(torch.autograd.Function):
    """log Σ exp x - (1 - s) x[target] - s mean(x), a few rows at a time; nothing of the size of x is kept beside it."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, pad: int, smoothing: float) -> Tensor:
        sums = logits.new_empty(len(logits), dtype=_wide(logits))
        losses = torch.empty_like(sums)
        for rows in _chunks(logits):
            x = logits[rows].to(sums.dtype)
            sums[rows] = x.logsumexp(1)
            losses[rows] = sums[rows] - (1 - smoothing) * x.gather(1, targets[rows, None])[:, 0]
            if smoothing:
                losses[rows] -= smoothing * x.mean(1)
        ctx.save_for_backward(logits, targets, sums)
        ctx.pad, ctx.smoothing = pad, smoothing
        return losses.masked_fill_(targets == pad, 0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, None, None, None]:
        """softmax(x) - s / V, less 1 - s at the target."""
        logits, targets, sums = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        scale = given.masked_fill(targets == ctx.pad, 0.0)[:, None]  # [M, 1]
        for rows in _chunks(logits):
            p = logits[rows].to(sums.dtype, copy=True).sub_(sums[rows, None]).exp_()
            if ctx.smoothing:
                p -= ctx.smoothing / logits.shape[1]
            target = targets[rows, None]
            p.scatter_(1, target, p.gather(1, target) - (1 - ctx.smoothing))
            gradient[rows] = p.mul_(scale[rows])
        return gradient, None, None, None


def _wide(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def _chunks(logits: Tensor) -> Iterator[slice]:
    rows = max(1, CHUNK // max(1, logits.shape[1]))
    return (slice(first, first + rows) for first in range(0, len(logits), rows))
