"""Beam search: the W best beginnings of each video are kept, a finished sentence holding its place unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hoca.errors import UserError
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import SentenceLimits
from hoca.generation.step import WordByWord, inference, next_word
from hoca.models import CaptionModel, Memory, State
from hoca.models.trees import map_tensors, tensors


@dataclass(frozen=True)
class Beams:
    """The beginnings of all videos' sentences, best first."""

    words: Tensor  # [B, W, max_length + 2] ids, <pad> after the last one said
    total: Tensor  # [B, W], log p
    score: Tensor  # [B, W], log p / length^length_penalty
    ended: Tensor  # [B, W] bool
    length: Tensor  # [B, W], <eos> counted
    state: State  # of the decoder
    said: Tensor  # words after which all sentences were finished

    def finished(self) -> Tensor:
        """Whether no beginning can still change: a bool on the device."""
        return (self.ended | self.total.isinf()).all()


@dataclass(frozen=True)
class BeamSearch(WordByWord):
    limits: SentenceLimits
    width: int
    length_penalty: float

    def begin(self, model: CaptionModel, memory: Memory) -> Beams:
        vocabulary, state = model.vocabulary, model.begin(memory, self.width)
        first = next(part for part in tensors(state) if part.is_floating_point())  # [B, W, ...]
        device, shape = first.device, first.shape[:2]
        words = torch.full((*shape, self.limits.max_length + 2), vocabulary.pad, device=device)
        words[:, :, 0] = vocabulary.bos
        total = torch.full(shape, float("-inf"), device=device, dtype=torch.promote_types(first.dtype, torch.float32))
        total[:, 0] = 0.0  # all begin alike: one of them is enough
        return Beams(
            words=words,
            total=total,
            score=total,
            ended=torch.zeros(shape, dtype=torch.bool, device=device),
            length=torch.zeros(shape, device=device),
            state=state,
            said=torch.zeros((), dtype=torch.long, device=device),
        )

    def advance(self, model: CaptionModel, memory: Memory, beams: Beams, said: int) -> Beams:
        vocabulary, size = model.vocabulary, len(model.vocabulary)
        logprob, state = next_word(model, memory, beams.words[:, :, said], beams.state)  # [B, W, V]
        blocked = self.limits.blocked(beams.words[:, :, : said + 1], vocabulary)
        stay = torch.arange(size, device=logprob.device) != vocabulary.pad  # a finished sentence is padded, for nothing
        open_places = ~beams.ended[..., None]
        logprob = (logprob * open_places).masked_fill(torch.where(open_places, blocked, stay), float("-inf"))
        totals = (beams.total[..., None] + logprob).flatten(1)  # [B, W·V]
        length = torch.where(beams.ended, beams.length, said + 1.0)
        scores = totals
        if self.length_penalty:
            scores = totals / (length**self.length_penalty).repeat_interleave(size, dim=1)
        score, chosen = scores.topk(self.width, dim=1)  # [B, W]
        source, word = chosen // size, chosen % size
        words = beams.words.gather(1, source[..., None].expand_as(beams.words))
        words[:, :, said + 1] = word
        new = Beams(
            words=words,
            total=totals.gather(1, chosen),
            score=score,
            ended=beams.ended.gather(1, source) | (word == vocabulary.eos),
            length=length.gather(1, source),
            state=map_tensors(lambda part: reordered(part, source), state),
            said=beams.said + 1,
        )
        finished = beams.finished()
        return map_tensors(lambda old, new: torch.where(finished, old, new.to(old)), beams, new)


def reordered(part: Tensor, source: Tensor) -> Tensor:
    """part [B, W, ...] with hypothesis source [B, W] of each video at each place."""
    return part.gather(1, source.view(*source.shape, *[1] * (part.dim() - 2)).expand_as(part))


def beam_search(
    model: CaptionModel,
    memory: Memory,
    limits: SentenceLimits | None = None,
    *,
    width: int = 5,
    length_penalty: float = 0.0,
) -> Hypotheses:
    """The `width` best sentences per video by log p / length^length_penalty, <eos> counted in the length."""
    if width < 1:
        raise UserError(f"the beam's width is {width}: at least 1 is needed")
    search = BeamSearch(limits or SentenceLimits(), width, length_penalty)
    with inference(model):
        if tensors(memory)[0].is_cuda:
            from hoca.generation.captured import search_captured

            beams = search_captured(search, model, memory)
        else:
            beams = search.run(model, memory)
    return Hypotheses(beams.words[:, :, : int(beams.said) + 1], beams.total, beams.score)
