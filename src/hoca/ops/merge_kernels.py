# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""eq. 19 in one launch, and its gradients in another (Triton)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 4  # of [B · Q, T] that a program has


@triton.jit
def softmax(x, real):
    """Over the real entries of each row; 0 elsewhere, and where there is none."""
    x = tl.where(real, x, float("-inf"))
    largest = tl.max(x, axis=1)
    x = tl.exp(x - tl.where(largest == float("-inf"), 0.0, largest)[:, None])
    total = tl.sum(x, axis=1)
    return x / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def places(mask, rows, Q, T, MASKED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Of a program: its rows' videos [ROWS], where its entries are, which exist and which are real [ROWS, BLOCK]."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    step, video = tl.arange(0, BLOCK), row // Q
    exists = (row < rows)[:, None] & (step < T)[None, :]
    real = exists
    if MASKED:
        real = exists & (tl.load(mask + video[:, None] * T + step[None, :], mask=exists, other=0) != 0)
    return video, row[:, None] * T + step[None, :], exists, real


@triton.jit
def group(scores, theta, counts, video, place, real, inside, g, G: tl.constexpr, COUNTED: tl.constexpr):
    """α_g [ROWS, BLOCK], and what it counts for each row, [ROWS]: θ_g, or 0; and 1 or 0."""
    x = tl.load(scores + place, mask=real, other=0.0)
    counted = inside.to(tl.float32)
    if COUNTED:
        counted = (tl.load(counts + video * G + g, mask=inside, other=0) != 0).to(tl.float32)
        x = tl.where(counted[:, None] != 0.0, x, 0.0)
    return softmax(x, real), counted * tl.load(theta + g), counted


@triton.jit
def merge_kernel(
    scores, theta, mask, counts, merged, rows, Q, T,
    G: tl.constexpr, MASKED: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """α = softmax(Σ_g θ_g softmax(s_g)). Grid: blocks of rows."""
    video, place, exists, real = places(mask, rows, Q, T, MASKED, ROWS, BLOCK)
    inside = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS) < rows
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for g in tl.static_range(G):
        each, weight, _ = group(scores[g], theta, counts, video, place, real, inside, g, G, COUNTED)
        total += weight[:, None] * each
    tl.store(merged + place, softmax(total, real), mask=exists)


@triton.jit
def merge_gradient_kernel(
    gradient, merged, scores, theta, mask, counts, of_scores, of_theta, rows, Q, T,
    G: tl.constexpr, MASKED: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """d = α (g − Σ α g), ∂/∂s_g = θ_g α_g (d − Σ α_g d), ∂/∂θ_g = Σ α_g d, this program's part. Grid: as above."""
    video, place, exists, real = places(mask, rows, Q, T, MASKED, ROWS, BLOCK)
    inside = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS) < rows
    alpha = tl.load(merged + place, mask=exists, other=0.0)
    given = tl.load(gradient + place, mask=exists, other=0.0)
    d = alpha * (given - tl.sum(alpha * given, axis=1)[:, None])
    for g in tl.static_range(G):
        each, weight, counted = group(scores[g], theta, counts, video, place, real, inside, g, G, COUNTED)
        product = tl.sum(each * d, axis=1)  # [ROWS]
        tl.store(of_scores[g] + place, weight[:, None] * each * (d - product[:, None]), mask=exists)
        tl.store(of_theta + tl.program_id(0) * G + g, tl.sum(counted * product, axis=0))


class MergedWeights(torch.autograd.Function):
    """θ [G], mask [B, T] or None, counts [B, G] or None, then s_g [B, Q, T] of each group → α [B, Q, T]."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, mask: Tensor | None, counts: Tensor | None, *scores: Tensor) -> Tensor:
        scores = tuple(score.contiguous() for score in scores)
        theta = theta.float().contiguous()
        mask, counts = (None if each is None else each.contiguous() for each in (mask, counts))
        merged = torch.empty_like(scores[0])
        _launch(merge_kernel, scores, theta, mask, counts, (scores, theta, mask, counts, merged))
        ctx.save_for_backward(merged, theta, mask, counts, *scores)
        return merged

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        merged, theta, mask, counts, *rest = ctx.saved_tensors
        scores = tuple(rest)
        of_scores = tuple(torch.empty_like(score) for score in scores)
        of_theta = theta.new_empty(_programs(scores[0]), len(scores))
        arguments = (gradients[0].contiguous(), merged, scores, theta, mask, counts, of_scores, of_theta)
        _launch(merge_gradient_kernel, scores, theta, mask, counts, arguments)
        return of_theta.sum(0), None, None, *of_scores


def _programs(score: Tensor) -> int:
    return triton.cdiv(score.shape[0] * score.shape[1], ROWS)


def _launch(
    kernel: Any,
    scores: tuple[Tensor, ...],
    theta: Tensor,
    mask: Tensor | None,
    counts: Tensor | None,
    arguments: tuple[Any, ...],
) -> None:
    videos, queries, steps = scores[0].shape
    if not scores[0].numel():
        return
    given = [theta if each is None else each for each in arguments]  # an address that is not read
    kernel[(_programs(scores[0]),)](
        *given, videos * queries, queries, steps,
        len(scores), mask is not None, counts is not None, ROWS, triton.next_power_of_2(steps),
    )  # fmt: skip
