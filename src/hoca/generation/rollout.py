"""One word after the other with no way back: the likeliest (greedy), or drawn at random (sampling)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hoca.errors import UserError
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import SentenceLimits
from hoca.generation.step import inference, next_word
from hoca.models import CaptionModel, Memory
from hoca.models.trees import tensors


def greedy(model: CaptionModel, memory: Memory, limits: SentenceLimits | None = None) -> Hypotheses:
    """The likeliest word each time, one sentence per video."""
    return _roll_out(model, memory, lambda allowed: allowed.argmax(-1), 1, limits or SentenceLimits())


def sample(
    model: CaptionModel,
    memory: Memory,
    limits: SentenceLimits | None = None,
    *,
    count: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
) -> Hypotheses:
    """`count` sentences per video, drawn word by word; the likeliest first.

    `top_k` keeps the k likeliest words (0 = all), `top_p` the fewest words that together have that probability.
    Without a `seed`, torch's global generator gives one, so `torch.manual_seed` makes this repeatable too.
    """
    if not 0 < temperature < float("inf") or top_k < 0 or not 0 < top_p <= 1 or count < 1:
        raise UserError(
            f"sampling needs temperature > 0, top_k ≥ 0, 0 < top_p ≤ 1, count ≥ 1; "
            f"got temperature={temperature}, top_k={top_k}, top_p={top_p}, count={count}"
        )
    chosen_seed = int(torch.randint(2**62, ())) if seed is None else seed
    generator = torch.Generator(tensors(memory)[0].device).manual_seed(chosen_seed)

    def draw(allowed: Tensor) -> Tensor:
        kept = keep_top(allowed / temperature, top_k, top_p)
        drawn = torch.multinomial(torch.softmax(kept, -1).flatten(0, 1), 1, generator=generator)  # [B·W, 1]
        return drawn.view(kept.shape[:2])

    drawn = _roll_out(model, memory, draw, count, limits or SentenceLimits())
    order = drawn.logprob.argsort(dim=1, descending=True)  # [B, W]
    words = drawn.words.gather(1, order[..., None].expand_as(drawn.words))
    return Hypotheses(words, drawn.logprob.gather(1, order), drawn.score.gather(1, order))


def keep_top(logprobs: Tensor, top_k: int, top_p: float) -> Tensor:
    """[B, W, V] → the same with -inf for what top-k and top-p leave out; the likeliest word always stays."""
    ordered, places = logprobs.sort(dim=-1, descending=True)
    cut = torch.zeros_like(ordered, dtype=torch.bool)
    if top_p < 1:
        mass = torch.softmax(ordered, -1)
        cut = mass.cumsum(-1) - mass >= top_p  # what lies before a word already has the wanted probability
    if top_k:
        cut[..., top_k:] = True
    cut[..., 0] = False
    return torch.empty_like(logprobs).scatter_(-1, places, ordered.masked_fill(cut, float("-inf")))


def _roll_out(
    model: CaptionModel, memory: Memory, pick: Callable[[Tensor], Tensor], rows: int, limits: SentenceLimits
) -> Hypotheses:
    vocabulary, total = model.vocabulary, None
    with inference(model):
        state = model.begin(memory, rows)
        first = tensors(state)[0]  # [B, W, ...]
        words = torch.full((len(first), rows, limits.max_length + 2), vocabulary.pad, device=first.device)
        words[:, :, 0] = vocabulary.bos
        ended = torch.zeros(words.shape[:2], dtype=torch.bool, device=first.device)
        for said in range(limits.max_length + 1):
            logprob, state = next_word(model, memory, words[:, :, said], state)  # [B, W, V]
            allowed = logprob.masked_fill(limits.blocked(words[:, :, : said + 1], vocabulary), float("-inf"))
            word = pick(allowed).masked_fill(ended, vocabulary.pad)
            gained = logprob.gather(2, word[..., None]).squeeze(2).masked_fill(ended, 0.0)
            total = gained if total is None else total + gained
            words[:, :, said + 1] = word
            ended = ended | (word == vocabulary.eos)
            if bool(ended.all()):
                break
    assert total is not None
    return Hypotheses(words[:, :, : said + 2], total, total)
