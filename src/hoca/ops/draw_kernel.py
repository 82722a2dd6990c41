# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Drawing a word in one launch (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048  # words at a time


@triton.jit
def load_allowed(logprob, blocked, first, V, BLOCK: tl.constexpr):
    """A block of words that begins with `first`, and their log-probabilities; -inf where one is blocked."""
    word = first + tl.arange(0, BLOCK)
    exists = word < V
    allowed = exists & (tl.load(blocked + word, mask=exists, other=1) == 0)
    return word, tl.load(logprob + word, mask=allowed, other=float("-inf"))


@triton.jit
def draw_kernel(logprob, blocked, chance, drawn, W, V, blocked_b, blocked_w, sharpness, BLOCK: tl.constexpr):
    """The word whose part of Σ p^(1/temperature) the chance falls in. Grid: rows [B · W]."""
    row = tl.program_id(0).to(tl.int64)
    logprob += row * V
    blocked += row // W * blocked_b + row % W * blocked_w
    largest = float("-inf")
    for first in range(0, V, BLOCK):
        word, x = load_allowed(logprob, blocked, first, V, BLOCK)
        largest = tl.maximum(largest, tl.max(x, axis=0))
    total = tl.zeros([], tl.float64)
    last = tl.zeros([], tl.int32)  # word that can be drawn
    for first in range(0, V, BLOCK):
        word, x = load_allowed(logprob, blocked, first, V, BLOCK)
        weight = tl.exp((x - largest) * sharpness).to(tl.float64)
        total += tl.sum(weight, axis=0)
        last = tl.maximum(last, tl.max(tl.where(weight > 0, word, 0), axis=0))
    target = tl.load(chance + row) * total
    found = last  # where rounding puts the target behind all parts
    before = tl.zeros([], tl.float64)  # the parts of the blocks before
    for first in range(0, V, BLOCK):
        word, x = load_allowed(logprob, blocked, first, V, BLOCK)
        weight = tl.exp((x - largest) * sharpness).to(tl.float64)
        after = before + tl.sum(weight, axis=0)
        if (before <= target) & (target < after):
            passed = tl.sum((before + tl.cumsum(weight, axis=0) <= target).to(tl.int32), axis=0)
            found = tl.minimum(first + passed, tl.max(tl.where(weight > 0, word, 0), axis=0))
        before = after
    tl.store(drawn + row, found.to(tl.int64))


def drawn(logprob: Tensor, blocked: Tensor, chance: Tensor, temperature: float) -> Tensor:
    """As `hoca.ops.draw.draw`."""
    videos, width, words = logprob.shape
    found = torch.empty(videos, width, dtype=torch.long, device=logprob.device)
    if not found.numel():
        return found
    blocked = blocked.expand_as(logprob)
    if blocked.stride(2) != 1:
        blocked = blocked.contiguous()
    draw_kernel[(videos * width,)](
        logprob.contiguous(), blocked, chance.double().contiguous(), found,
        width, words, blocked.stride(0), blocked.stride(1), 1.0 / temperature, BLOCK, num_warps=8,
    )  # fmt: skip
    return found
