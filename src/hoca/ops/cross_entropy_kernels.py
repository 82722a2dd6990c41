# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""log Σ exp of each row and the score of its target, and the gradient of their difference (Triton)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import cdiv

BLOCK = 4096


@triton.jit
def loss_kernel(logits, targets, losses, sums, stride, V, pad, BLOCK: tl.constexpr):
    """Grid: rows."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    most = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, V, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(logits + row * stride + column, mask=column < V, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(most, x)
        # A column that has met nothing but -inf has no sum yet: without the choice it would be NaN.
        total = tl.where(higher == float("-inf"), 0.0, total * tl.exp(most - higher) + tl.exp(x - higher))
        most = higher
    peak = tl.max(most, axis=0)
    log_sum = peak + tl.log(tl.sum(total * tl.exp(most - peak), axis=0))
    score = tl.load(logits + row * stride + target).to(tl.float32)
    tl.store(losses + row, tl.where(target == pad, 0.0, log_sum - score))
    tl.store(sums + row, log_sum)


@triton.jit
def gradient_kernel(logits, targets, sums, given, gradient, stride, V, pad, given_stride, BLOCK: tl.constexpr):
    """softmax minus 1 at the target, times the gradient of the loss. Grid: rows, blocks of columns."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    target = tl.load(targets + row)
    scale = tl.where(target == pad, 0.0, tl.load(given + row * given_stride))
    x = tl.load(logits + row * stride + column, mask=column < V, other=float("-inf")).to(tl.float32)
    value = (tl.exp(x - tl.load(sums + row)) - tl.where(column == target, 1.0, 0.0)) * scale
    tl.store(gradient + row * V + column, value.to(gradient.dtype.element_ty), mask=column < V)


class CrossEntropy(torch.autograd.Function):
    """logits [M, V], targets [M] → losses [M] float32."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, pad: int) -> Tensor:
        logits = logits if logits.stride(1) == 1 else logits.contiguous()
        targets = targets.contiguous()
        rows, words = logits.shape
        losses, sums = (logits.new_empty(rows, dtype=torch.float32) for _ in range(2))
        loss_kernel[(rows,)](logits, targets, losses, sums, logits.stride(0), words, pad, BLOCK, num_warps=8)
        ctx.save_for_backward(logits, targets, sums)
        ctx.pad = pad
        return losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, targets, sums = ctx.saved_tensors
        rows, words = logits.shape
        gradient = logits.new_empty(rows, words)
        gradient_kernel[(rows, cdiv(words, BLOCK))](
            logits, targets, sums, gradients[0], gradient, logits.stride(0), words, ctx.pad, gradients[0].stride(0),
            BLOCK, num_warps=8,
        )  # fmt: skip
        return gradient, None, None
