# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""h and the weighted contexts in one launch, and their gradients in another (Triton)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def join_kernel(hidden, contexts, shares, joined, share_q, H, W, N: tl.constexpr, BLOCK: tl.constexpr):
    """[h, β_1 φ_1, …] of a row. Grid: rows, and h after the contexts."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, BLOCK)
    joined += row * (H + N * W)
    if part == N:
        tl.store(joined + column, tl.load(hidden + row * H + column, mask=column < H, other=0.0), mask=column < H)
    for i in tl.static_range(N):
        if part == i:
            context = tl.load(contexts[i] + row * W + column, mask=column < W, other=0.0).to(tl.float32)
            value = context * tl.load(shares[i] + row * share_q[i]).to(tl.float32)
            tl.store(joined + H + i * W + column, value.to(joined.dtype.element_ty), mask=column < W)


@triton.jit
def part_kernel(
    gradient, contexts, shares, of_hidden, of_contexts, of_shares, share_q, H, W, N: tl.constexpr, BLOCK: tl.constexpr
):
    """∂/∂φ = β g, ∂/∂β = φ · g. Grid: as above."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, BLOCK)
    gradient += row * (H + N * W)
    if part == N:
        tl.store(of_hidden + row * H + column, tl.load(gradient + column, mask=column < H, other=0.0), mask=column < H)
    for i in tl.static_range(N):
        if part == i:
            given = tl.load(gradient + H + i * W + column, mask=column < W, other=0.0).to(tl.float32)
            context = tl.load(contexts[i] + row * W + column, mask=column < W, other=0.0).to(tl.float32)
            value = given * tl.load(shares[i] + row * share_q[i]).to(tl.float32)
            tl.store(of_contexts[i] + row * W + column, value.to(of_contexts[i].dtype.element_ty), mask=column < W)
            tl.store(of_shares[i] + row, tl.sum(given * context, axis=0).to(of_shares[i].dtype.element_ty))


class SideBySide(torch.autograd.Function):
    """h [B, Q, H], then φ [B, Q, W] and β [B, Q] of each modality → [B, Q, H + N · W]."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, *given: Tensor) -> Tensor:
        contexts, shares = tuple(c.contiguous() for c in given[::2]), tuple(s.flatten() for s in given[1::2])
        hidden = hidden.contiguous()
        size, width = hidden.shape[-1], contexts[0].shape[-1]
        joined = hidden.new_empty(*hidden.shape[:2], size + len(contexts) * width)
        join_kernel[(shares[0].numel(), len(contexts) + 1)](
            hidden, contexts, shares, joined, tuple(s.stride(0) for s in shares),
            size, width, len(contexts), triton.next_power_of_2(max(size, width)),
        )  # fmt: skip
        ctx.save_for_backward(*contexts, *shares)
        ctx.size = size
        return joined

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        count = len(ctx.saved_tensors) // 2
        contexts, shares = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        gradient, width = gradients[0].contiguous(), contexts[0].shape[-1]
        of_hidden = gradient.new_empty(*gradient.shape[:2], ctx.size)
        of_contexts = tuple(torch.empty_like(context) for context in contexts)
        of_shares = tuple(share.new_empty(gradient.shape[:2]) for share in shares)
        part_kernel[(shares[0].numel(), count + 1)](
            gradient, contexts, shares, of_hidden, of_contexts, of_shares, tuple(s.stride(0) for s in shares),
            ctx.size, width, count, triton.next_power_of_2(max(ctx.size, width)),
        )  # fmt: skip
        return of_hidden, *(each for pair in zip(of_contexts, of_shares, strict=True) for each in pair)
