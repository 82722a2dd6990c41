# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Drawing a word in one launch (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 16384  # words at a time, at most: a vocabulary is one block, read once from memory
WORDS_PER_WARP = 1024


@triton.jit
def load_scores(scores, blocked, first, V, BLOCK: tl.constexpr):
    """A block of words that begins with `first`: their scores, and the same with -inf where a word is blocked."""
    word = first + tl.arange(0, BLOCK)
    exists = word < V
    score = tl.load(scores + word, mask=exists, other=float("-inf")).to(tl.float32)
    free = tl.load(blocked + word, mask=exists, other=1) == 0
    return word, score, tl.where(free, score, float("-inf"))


@triton.jit
def draw_kernel(
    scores, blocked, chance, drawn, logprob, W, V, score_b, score_w, blocked_b, blocked_w, sharpness,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The word whose part of Σ p^(1/temperature) the chance falls in, and log p. Grid: rows [B · W]."""
    row = tl.program_id(0).to(tl.int64)
    scores += row // W * score_b + row % W * score_w
    blocked += row // W * blocked_b + row % W * blocked_w
    highest = float("-inf")  # of all words
    largest = float("-inf")  # of those that are not blocked
    for first in range(0, V, BLOCK):
        word, score, allowed = load_scores(scores, blocked, first, V, BLOCK)
        highest = tl.maximum(highest, tl.max(score, axis=0))
        largest = tl.maximum(largest, tl.max(allowed, axis=0))
    everything = tl.zeros([], tl.float32)
    total = tl.zeros([], tl.float64)
    last = tl.zeros([], tl.int32)  # word that can be drawn
    for first in range(0, V, BLOCK):
        word, score, allowed = load_scores(scores, blocked, first, V, BLOCK)
        everything += tl.sum(tl.exp(score - highest), axis=0)
        weight = tl.exp((allowed - largest) * sharpness).to(tl.float64)
        total += tl.sum(weight, axis=0)
        last = tl.maximum(last, tl.max(tl.where(weight > 0, word, 0), axis=0))
    target = tl.load(chance + row) * total
    found = last  # where rounding puts the target behind all parts
    before = tl.zeros([], tl.float64)  # the parts of the blocks before
    for first in range(0, V, BLOCK):
        word, score, allowed = load_scores(scores, blocked, first, V, BLOCK)
        weight = tl.exp((allowed - largest) * sharpness).to(tl.float64)
        after = before + tl.sum(weight, axis=0)
        if (before <= target) & (target < after):
            passed = tl.sum((before + tl.cumsum(weight, axis=0) <= target).to(tl.int32), axis=0)
            found = tl.minimum(first + passed, tl.max(tl.where(weight > 0, word, 0), axis=0))
        before = after
    tl.store(drawn + row, found.to(tl.int64))
    tl.store(logprob + row, tl.load(scores + found).to(tl.float32) - highest - tl.log(everything))


def drawn(scores: Tensor, blocked: Tensor, chance: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """As `hoca.ops.draw.draw`."""
    videos, width, words = scores.shape
    found = torch.empty(videos, width, dtype=torch.long, device=scores.device)
    logprob = torch.empty(videos, width, device=scores.device)
    if not found.numel():
        return found, logprob
    blocked = blocked.expand_as(scores)
    scores, blocked = (each if each.stride(2) == 1 else each.contiguous() for each in (scores, blocked))
    block = min(triton.next_power_of_2(words), BLOCK)
    draw_kernel[(videos * width,)](
        scores, blocked, chance.double().contiguous(), found, logprob,
        width, words, *scores.stride()[:2], *blocked.stride()[:2], 1.0 / temperature,
        block, num_warps=max(1, block // WORDS_PER_WARP),
    )  # fmt: skip
    return found, logprob
