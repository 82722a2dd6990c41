"""A query and the contexts of the modalities, each times its share, side by side: the input of the output layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hoca.ops import has_triton


def side_by_side(
    hidden: Tensor, contexts: Sequence[Tensor | None], shares: Sequence[Tensor | None], width: int
) -> Tensor:
    """[h, β_1 φ_1, …] of h [B, Q, H], φ [B, Q, width] (None: 0) and β [B, Q] (None: 1), in the type of h."""
    pairs = [(context, share) for context, share in zip(contexts, shares, strict=True) if context is not None]
    given = [tensor for pair in pairs for tensor in pair if tensor is not None]
    of_bf16 = all(tensor.dtype == torch.bfloat16 for tensor in (hidden, *given[::2]))
    if hidden.is_cuda and of_bf16 and len(given) == 2 * len(contexts) and has_triton():
        from hoca.ops.weighted_kernels import SideBySide

        return SideBySide.apply(hidden, *given)
    nothing = hidden.new_zeros(*hidden.shape[:2], width)
    weighted = [c if c is None or s is None else s[..., None] * c for c, s in zip(contexts, shares, strict=True)]
    parts = [nothing if part is None else part.to(hidden.dtype) for part in weighted]
    return torch.cat([hidden, *parts], dim=-1)
