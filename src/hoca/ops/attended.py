"""Scores of the words from the steps that are attended to: W_p φ with φ = Σ_r a_r I_r is also Σ_r a_r (W_p I_r).

Where a video has more words to be scored than steps, W_p is multiplied with the steps, and the products are weighed for
each word: half of the multiplications of MSR-VTT's batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.ops.copies import Copy, float32_product

WORTHWHILE = 0.75  # of the multiplications: there are more launches, and the products take memory


def saves_work(words: int, steps: Sequence[int], width: int) -> bool:
    """Whether products of the steps take fewer multiplications than those of the contexts.

    words: of a video; steps: of each modality, as wide as its contexts.
    """
    return sum(steps) * (width + words) < WORTHWHILE * len(steps) * words * width


def attended_scores(
    hidden: Tensor, attended: Sequence[tuple[Tensor, Tensor]], copy: Copy, weight: Tensor, bias: Tensor
) -> Tensor:
    """[h, Σ_r a_1r I_1r, …] W_p' + b of h [B, Q, H], and of weights a [B, Q, T_i] and steps I [B, T_i, width].

    copy: of `weight` [V, H + N · width] and `bias`, in the type that is computed in, perhaps with rows added; gradients
    of both are float32.
    """
    tensors = (hidden, *(weights for weights, _ in attended), *(steps for _, steps in attended))
    return AttendedScores.apply(*copy, weight, bias, *(tensor.to(copy[0].dtype) for tensor in tensors))


class AttendedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, copy: Tensor, bias: Tensor, *tensors: Tensor) -> Tensor:
        hidden, weights, steps = _parts(tensors[2:])
        of_hidden, *of_steps = _columns(copy, hidden, steps)
        logits = F.linear(hidden, of_hidden, bias)
        products = [F.linear(step, column) for step, column in zip(steps, of_steps, strict=True)]  # [B, T_i, V]
        for weighed, product in zip(weights, products, strict=True):
            logits.baddbmm_(weighed, product)
        ctx.save_for_backward(copy, *tensors[2:], *products)
        ctx.words, ctx.modalities = tensors[0].shape[0], len(steps)
        return logits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        copy, *saved = ctx.saved_tensors
        products = saved[-ctx.modalities :]
        hidden, weights, steps = _parts(saved[: -ctx.modalities])
        gradient = gradients[0]  # [B, Q, V]
        flat = gradient.flatten(0, 1)
        of_copy = torch.empty_like(copy, dtype=torch.float32)
        of_first, *of_columns = _columns(of_copy, hidden, steps)
        first, *columns = _columns(copy, hidden, steps)
        of_first.copy_(float32_product(flat.t(), hidden.flatten(0, 1)))
        of_weights, of_steps = [], []
        for number, of_column in enumerate(of_columns):
            of_weights.append(gradient @ products[number].transpose(1, 2))
            of_product = (weights[number].transpose(1, 2) @ gradient).flatten(0, 1)  # [B · T_i, V]
            of_steps.append((of_product @ columns[number]).view_as(steps[number]))
            of_column.copy_(float32_product(of_product.t(), steps[number].flatten(0, 1)))
        of_bias = flat.sum(0, dtype=torch.float32)[: ctx.words]
        of_hidden = (flat @ first).view_as(hidden)
        return None, None, of_copy[: ctx.words], of_bias, of_hidden, *of_weights, *of_steps


def _parts(tensors: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]:
    """The hidden states; of each modality the weights; its steps."""
    modalities = len(tensors) // 2
    return tensors[0], tensors[1 : 1 + modalities], tensors[1 + modalities :]


def _columns(weight: Tensor, hidden: Tensor, steps: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Of W_p, those of the hidden states and of each modality."""
    return weight.split([hidden.shape[2], *(step.shape[2] for step in steps)], dim=1)
