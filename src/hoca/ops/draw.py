"""Draw a word by its probability, with a chance that was drawn before: the same chance gives the same word."""

from __future__ import annotations

import torch
from torch import Tensor

from hoca.ops import has_triton


def draw(scores: Tensor, blocked: Tensor, chance: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """scores [B, W, V] before the softmax, blocked, bool that can be expanded to it, chance [B, W] below 1
    → word [B, W] and its log-probability among all words [B, W], float32 at least.

    The words that are not blocked share the interval from 0 to 1 by p^(1/temperature), in their order; the word within
    whose part the chance falls is drawn.
    """
    if scores.is_cuda and scores.dtype != torch.float64 and has_triton():
        from hoca.ops.draw_kernel import drawn

        return drawn(scores, blocked, chance, temperature)
    return plain_draw(scores, blocked, chance, temperature)


def plain_draw(scores: Tensor, blocked: Tensor, chance: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """The same, operation by operation."""
    logprob = torch.log_softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32))
    allowed = logprob.masked_fill(blocked, float("-inf")) / temperature
    up_to = torch.softmax(allowed, -1, dtype=torch.float64).cumsum(-1)
    word = torch.searchsorted(up_to, chance[..., None] * up_to[..., -1:], right=True)
    return word.squeeze(-1), logprob.gather(-1, word).squeeze(-1)
