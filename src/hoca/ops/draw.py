"""Draw a word by its probability, with a chance that was drawn before: the same chance gives the same word."""

from __future__ import annotations

import torch
from torch import Tensor

from hoca.ops import has_triton


def draw(logprob: Tensor, blocked: Tensor, chance: Tensor, temperature: float = 1.0) -> Tensor:
    """logprob [B, W, V], blocked, bool that can be expanded to it, chance [B, W] below 1 → word [B, W].

    The words that are not blocked share the interval from 0 to 1 by p^(1/temperature), in their order; the word within
    whose part the chance falls is drawn.
    """
    if logprob.is_cuda and logprob.dtype == torch.float32 and has_triton():
        from hoca.ops.draw_kernel import drawn

        return drawn(logprob, blocked, chance, temperature)
    return plain_draw(logprob, blocked, chance, temperature)


def plain_draw(logprob: Tensor, blocked: Tensor, chance: Tensor, temperature: float = 1.0) -> Tensor:
    """The same, operation by operation."""
    allowed = logprob.masked_fill(blocked, float("-inf")) / temperature
    up_to = torch.softmax(allowed, -1, dtype=torch.float64).cumsum(-1)
    return torch.searchsorted(up_to, chance[..., None] * up_to[..., -1:], right=True).squeeze(-1)
