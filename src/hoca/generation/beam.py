"""Beam search: the W best beginnings of each video are kept, a finished sentence holding its place unchanged."""

from __future__ import annotations

import torch

from hoca.errors import UserError
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import Limits
from hoca.generation.step import inference, next_word
from hoca.models import Captioner, Memory


def beam_search(
    model: Captioner, memory: Memory, limits: Limits | None = None, *, width: int = 5, length_penalty: float = 0.0
) -> Hypotheses:
    """The `width` best sentences per video by log p / length^length_penalty, <eos> counted in the length."""
    if width < 1:
        raise UserError(f"the beam's width is {width}: at least 1 is needed")
    limits = limits or Limits()
    vocabulary, size = model.vocabulary, len(model.vocabulary)
    device = memory.start[0].device
    words = torch.full((memory.videos, width, limits.max_length + 2), vocabulary.pad, device=device)
    words[:, :, 0] = vocabulary.bos
    total = torch.full((memory.videos, width), float("-inf"), device=device)
    total[:, 0] = 0.0  # all begin alike: one of them is enough
    score, state = total, None
    ended = torch.zeros_like(total, dtype=torch.bool)
    length = torch.zeros_like(total)
    stay = torch.full((size,), float("-inf"), device=device)
    stay[vocabulary.pad] = 0.0
    with inference(model):
        for said in range(limits.max_length + 1):
            logprob, state = next_word(model, memory, words[:, :, said], state)  # [B, W, V]
            logprob = logprob.masked_fill(limits.blocked(words[:, :, : said + 1], vocabulary), float("-inf"))
            logprob = torch.where(ended[..., None], stay.to(logprob.dtype), logprob)
            totals = (total[..., None] + logprob).flatten(1)  # [B, W·V]
            length = torch.where(ended, length, said + 1.0)
            scores = totals / (length**length_penalty).repeat_interleave(size, dim=1)
            score, chosen = scores.topk(width, dim=1)  # [B, W]
            source, word = chosen // size, chosen % size
            total = totals.gather(1, chosen)
            words = words.gather(1, source[..., None].expand_as(words))
            words[:, :, said + 1] = word
            ended = ended.gather(1, source) | (word == vocabulary.eos)
            length = length.gather(1, source)
            h, c = (part.gather(1, source[..., None].expand_as(part)) for part in state)
            state = h, c
            if bool((ended | total.isinf()).all()):
                break
    return Hypotheses(words[:, :, : said + 2], total, score)
