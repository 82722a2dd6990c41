# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Drawing a word in one launch (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 16384  # words at a time, at most: a vocabulary is one block, read once from memory
LINE = 64  # of a block: the line that a chance falls in is found first, then the word within it
WORDS_PER_WARP = 1024


@triton.jit
def load_scores(scores, blocked, word, V):
    """The scores of some words, and the same with -inf where one is blocked."""
    exists = word < V
    score = tl.load(scores + word, mask=exists, other=float("-inf")).to(tl.float32)
    free = tl.load(blocked + word, mask=exists, other=1) == 0
    return score, tl.where(free, score, float("-inf"))


@triton.jit
def draw_kernel(
    scores, blocked, chance, drawn, logprob, W, V, score_b, score_w, blocked_b, blocked_w, sharpness,
    LINES: tl.constexpr, LINE: tl.constexpr,
):  # fmt: skip
    """The word whose part of Σ p^(1/temperature) the chance falls in, and log p. Grid: rows [B · W]."""
    BLOCK: tl.constexpr = LINES * LINE
    row = tl.program_id(0).to(tl.int64)
    scores += row // W * score_b + row % W * score_w
    blocked += row // W * blocked_b + row % W * blocked_w
    line = tl.arange(0, LINES)
    place = tl.arange(0, LINE)
    words = line[:, None] * LINE + place[None, :]
    highest = float("-inf")  # of all words
    largest = float("-inf")  # of those that are not blocked
    for first in range(0, V, BLOCK):
        score, allowed = load_scores(scores, blocked, first + words, V)
        highest = tl.maximum(highest, tl.max(score))
        largest = tl.maximum(largest, tl.max(allowed))
    everything = tl.zeros([], tl.float32)
    total = tl.zeros([], tl.float64)
    last = tl.zeros([], tl.int32)  # word that can be drawn
    for first in range(0, V, BLOCK):
        score, allowed = load_scores(scores, blocked, first + words, V)
        everything += tl.sum(tl.exp(score - highest))
        weight = tl.exp((allowed - largest) * sharpness)
        total += tl.sum(tl.sum(weight.to(tl.float64), axis=1), axis=0)
        last = tl.maximum(last, tl.max(tl.where(weight > 0, first + words, 0)))
    target = tl.load(chance + row) * total
    found = last  # where rounding puts the target behind all parts
    before = tl.zeros([], tl.float64)  # the parts of the blocks before
    for first in range(0, V, BLOCK):
        score, allowed = load_scores(scores, blocked, first + words, V)
        of_lines = tl.sum(tl.exp((allowed - largest) * sharpness).to(tl.float64), axis=1)
        after = before + tl.sum(of_lines, axis=0)
        if (before <= target) & (target < after):
            up_to = before + tl.cumsum(of_lines, axis=0)
            # Lines of blocked words alone end the block: rounding must not put the target there.
            number = tl.minimum(
                tl.sum((up_to <= target).to(tl.int32), axis=0), tl.max(tl.where(of_lines > 0, line, 0), axis=0)
            )
            start = before + tl.sum(tl.where(line < number, of_lines, 0.0), axis=0)
            word = first + number * LINE + place
            _, of_line = load_scores(scores, blocked, word, V)
            weight = tl.exp((of_line - largest) * sharpness)
            passed = tl.sum((start + tl.cumsum(weight.to(tl.float64), axis=0) <= target).to(tl.int32), axis=0)
            found = tl.minimum(first + number * LINE + passed, tl.max(tl.where(weight > 0, word, 0), axis=0))
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
    block = max(LINE, min(triton.next_power_of_2(words), BLOCK))
    draw_kernel[(videos * width,)](
        scores, blocked, chance.double().contiguous(), found, logprob,
        width, words, *scores.stride()[:2], *blocked.stride()[:2], 1.0 / temperature,
        block // LINE, LINE, num_warps=max(1, block // WORDS_PER_WARP),
    )  # fmt: skip
    return found, logprob
