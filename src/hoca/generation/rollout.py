"""One word after the other with no way back: the likeliest (greedy), or drawn at random (sampling)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from hoca.errors import UserError
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import SentenceLimits
from hoca.generation.step import WordByWord, inference, log_probabilities, next_scores
from hoca.models import CaptionModel, Memory, State
from hoca.models.trees import tensors
from hoca.ops.draw import draw


@dataclass(frozen=True)
class Said:
    """The beginnings of all videos' sentences."""

    words: Tensor  # [B, W, max_length + 2] ids, <pad> after the last one said
    total: Tensor  # [B, W], log p
    ended: Tensor  # [B, W] bool
    state: State  # of the decoder
    chance: Tensor  # [B, W, max_length + 1], between 0 and 1: where each draw falls; no place where nothing is drawn

    def finished(self) -> Tensor:
        """Whether all sentences have ended: a bool on the device."""
        return self.ended.all()


@dataclass(frozen=True)
class Rollout(WordByWord):
    limits: SentenceLimits
    count: int = 1  # sentences of each video
    temperature: float = 0.0  # 0: the likeliest word each time
    top_k: int = 0
    top_p: float = 1.0
    generator: torch.Generator | None = field(default=None, compare=False)  # of the draws

    def begin(self, model: CaptionModel, memory: Memory) -> Said:
        vocabulary, state = model.vocabulary, model.begin(memory, self.count)
        first = next(part for part in tensors(state) if part.is_floating_point())  # [B, W, ...]
        device, shape = first.device, first.shape[:2]
        words = torch.full((*shape, self.limits.max_length + 2), vocabulary.pad, device=device)
        words[:, :, 0] = vocabulary.bos
        draws = self.limits.max_length + 1 if self.temperature else 0
        return Said(
            words=words,
            total=torch.zeros(shape, device=device, dtype=torch.promote_types(first.dtype, torch.float32)),
            ended=torch.zeros(shape, dtype=torch.bool, device=device),
            state=state,
            chance=torch.rand(*shape, draws, device=device, dtype=torch.float64, generator=self.generator),
        )

    def advance(self, model: CaptionModel, memory: Memory, found: Said, said: int) -> Said:
        vocabulary, ended = model.vocabulary, found.ended
        scores, state = next_scores(model, memory, found.words[:, :, said], found.state)  # [B, W, V]
        blocked = self.limits.blocked(found.words[:, :, : said + 1], vocabulary)
        if self.temperature:
            chosen, gained = self._draw(scores, blocked, found.chance[:, :, said])
        else:
            logprob = log_probabilities(scores)
            chosen = logprob.masked_fill(blocked, float("-inf")).argmax(-1)
            gained = logprob.gather(2, chosen[..., None]).squeeze(2)
        word, gained = chosen.masked_fill(ended, vocabulary.pad), gained.masked_fill(ended, 0.0)
        words = found.words.clone()
        words[:, :, said + 1] = word
        return Said(words, found.total + gained, ended | (word == vocabulary.eos), state, found.chance)

    def _draw(self, scores: Tensor, blocked: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
        """[B, W, V], [B, W] → the word within whose part of the whole probability each chance falls, and its log p."""
        if self.top_k or self.top_p < 1:
            allowed = log_probabilities(scores).masked_fill(blocked, float("-inf")) / self.temperature
            blocked = keep_top(allowed, self.top_k, self.top_p).isinf()
        return draw(scores, blocked, chance, self.temperature)


def greedy(model: CaptionModel, memory: Memory, limits: SentenceLimits | None = None) -> Hypotheses:
    """The likeliest word each time, one sentence per video."""
    return _rolled_out(Rollout(limits or SentenceLimits()), model, memory)


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
    generator = seeded(tensors(memory)[0].device, seed)
    search = Rollout(limits or SentenceLimits(), count, temperature, top_k, top_p, generator)
    drawn = _rolled_out(search, model, memory)
    order = drawn.logprob.argsort(dim=1, descending=True)  # [B, W]
    words = drawn.words.gather(1, order[..., None].expand_as(drawn.words))
    return Hypotheses(words, drawn.logprob.gather(1, order), drawn.score.gather(1, order))


def seeded(device: torch.device, seed: int | None = None) -> torch.Generator:
    """A generator of its own; without a seed, torch's global one gives it."""
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, ())) if seed is None else seed)


def keep_top(logprobs: Tensor, top_k: int, top_p: float) -> Tensor:
    """[B, W, V] → the same with -inf for what top-k and top-p leave out; the likeliest word always stays."""
    if not top_k and top_p == 1:
        return logprobs
    ordered, places = logprobs.sort(dim=-1, descending=True)
    cut = torch.zeros_like(ordered, dtype=torch.bool)
    if top_p < 1:
        mass = torch.softmax(ordered, -1)
        cut = mass.cumsum(-1) - mass >= top_p  # what lies before a word already has the wanted probability
    if top_k:
        cut[..., top_k:] = True
    cut[..., 0] = False
    return torch.empty_like(logprobs).scatter_(-1, places, ordered.masked_fill(cut, float("-inf")))


def _rolled_out(search: Rollout, model: CaptionModel, memory: Memory) -> Hypotheses:
    with inference(model):
        said: Said = search.run(model, memory)
    longest = int((said.words != model.vocabulary.pad).sum(-1).max())
    return Hypotheses(said.words[:, :, :longest], said.total, said.total)
