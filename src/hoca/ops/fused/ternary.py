"""Exact attention of order 3: what the steps of each modality meet, out of the two others, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from triton import cdiv, next_power_of_2

from hoca.ops.fused.powers import make_powers
from hoca.ops.fused.ternary_kernels import step_gradient_kernel, vector_kernel, weight_gradient_kernel

MOST_STEPS = 128  # of a modality
CHANNELS = 64  # of a program: the rows of a tensor core's product
WARPS = 4
REGISTERS = 168  # of a thread at most for the vectors: so that three programs fit a multiprocessor
WEIGHT_WARPS = 8  # where the accumulators, [steps, steps], would fill the registers of four


def pair_vectors(
    queries: Sequence[Tensor], keys: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """queries[l] [B, L, D], keys[l] [B, T_l, D], weights[l] [T_i, T_j], masks[l] [B, T_l] or none → v_l [B, L, D]."""
    return _Pairs.apply(*queries, *keys, *weights, *masks)


class _Pairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> tuple[Tensor, ...]:
        queries, keys, masks = given[:3], given[3:6], given[9:]
        weights = tuple(weight.contiguous() for weight in given[6:9])
        batch, words, size = queries[0].shape
        steps = tuple(key.shape[1] for key in keys)
        powers = make_powers(queries, keys, masks, sum(_rows(steps)))
        vectors = queries[0].new_empty((3, batch, words, size), dtype=torch.float32)
        ctx.steps, ctx.size, ctx.types = steps, size, tuple(tensor.dtype for tensor in given[:9])
        vector_kernel[(cdiv(size, CHANNELS), batch, 3)](
            *powers, masks or weights, weights, vectors, _mask_strides(masks), _strides(weights),
            *_numbers(ctx, powers, masks, _kind(ctx)), num_warps=WARPS, maxnreg=REGISTERS,
        )  # fmt: skip
        ctx.save_for_backward(*powers, *weights, *masks)
        return vectors.unbind(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        powers, weights, masks = ctx.saved_tensors[:2], ctx.saved_tensors[2:5], ctx.saved_tensors[5:]
        batch, words, _, _ = powers[0].shape
        gradient, strides = torch.stack(gradients), _mask_strides(masks)
        blocks, most = cdiv(ctx.size, CHANNELS), max(ctx.steps)
        of_queries = gradient.new_empty((2, 3, batch, words, ctx.size), dtype=ctx.types[0])
        of_keys = gradient.new_empty((2, 3, batch, most, ctx.size), dtype=ctx.types[3])
        step_gradient_kernel[(blocks, batch, 6)](
            *powers, masks or weights, weights, gradient, of_queries, of_keys, strides, _strides(weights),
            *_numbers(ctx, powers, masks, _kind(ctx)), most, num_warps=WARPS,
        )  # fmt: skip
        of_weights = gradient.new_empty((blocks * batch, 3, most, most))
        rows = next_power_of_2(sum(_rows(ctx.steps)))
        weight_gradient_kernel[(blocks, batch, 3)](
            *powers, masks or weights, gradient, of_weights, strides,
            *_numbers(ctx, powers, masks, _kind(ctx, bounded=False)), most, rows, num_warps=WEIGHT_WARPS,
        )  # fmt: skip
        results = list(of_queries.sum(0).unbind(0))
        results += [k[:, :t] for k, t in zip(of_keys.sum(0).unbind(0), ctx.steps, strict=True)]
        shapes = [weight.shape for weight in weights]
        results += [w[:t, :u] for w, (t, u) in zip(of_weights.sum(0).unbind(0), shapes, strict=True)]
        return *(r.to(dtype) for r, dtype in zip(results, ctx.types, strict=True)), *(None for _ in masks)


def _rows(steps: tuple[int, ...]) -> tuple[int, int]:
    """BIG and SMALL."""
    most = max(*steps, 16)
    return (next_power_of_2(most), 0) if most <= 64 else (64, max(16, next_power_of_2(most - 64)))


def _strides(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(tensor.stride(0) for tensor in tensors)


def _mask_strides(masks: tuple[Tensor, ...]) -> tuple[int, ...]:
    return _strides(masks) or (0, 0, 0)


def _numbers(ctx: Any, powers: tuple[Tensor, ...], masks: tuple[Tensor, ...], kind: str) -> tuple[Any, ...]:
    """Sizes and what the kernels are specialised on, in their order."""
    (_, words, _, width), height = powers[0].shape, powers[1].shape[3]
    big, small = _rows(ctx.steps)
    sizes = (ctx.steps, words, ctx.size, width, height)
    native = not triton.knobs.runtime.interpret
    return (*sizes, bool(masks), native, kind, 2 if small else 1, big, small, CHANNELS)


def _kind(ctx: Any, *, bounded: bool = True) -> str:
    """What tensor cores are given: float32's accuracy takes two parts, of f16 where nothing is larger than 1."""
    return "bf16" if ctx.types[0] != torch.float32 else "f16" if bounded else "tf32"
