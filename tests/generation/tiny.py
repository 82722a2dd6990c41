"""Captioners with so few words that all their sentences can be written down."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from hoca.generation import Hypotheses, SentenceLimits
from hoca.models import Captioner, Memory, create
from hoca.text import Vocabulary

WIDTHS = {"image": 4, "motion": 3}
VOCABULARY = Vocabulary(["a", "dog", "runs"])
PAD, BOS, EOS = VOCABULARY.pad, VOCABULARY.bos, VOCABULARY.eos


def captioner(seed: int = 0, vocabulary: Vocabulary = VOCABULARY, ending: float = 0.0, **options: Any) -> Captioner:
    """In float64, opinionated enough that its choices differ from word to word; `ending` makes <eos> likelier."""
    torch.manual_seed(seed)
    sizes = {"hidden": 6, "attention": 5, "embedding": 4, "max_steps": 6, "dropout": 0.5}
    model = create("l-hoca-ub", WIDTHS, vocabulary, **sizes | options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
        model.output.linear.bias[vocabulary.eos] += ending
    return model


def videos(count: int = 3) -> dict[str, Tensor]:
    return {m: 2 * torch.randn(count, 4, width).double() for m, width in WIDTHS.items()}


def encoded(model: Captioner, count: int = 3) -> Memory:
    """Ragged videos, the second without motion."""
    lengths = {"image": torch.tensor([4, 2, 3]), "motion": torch.tensor([1, 0, 4])}
    with torch.no_grad():
        return model.encode(videos(count), {m: length[:count] for m, length in lengths.items()})


def teacher_forced(model: Captioner, memory: Memory, words: Tensor) -> Tensor:
    """words [B, W, S], <bos> … <eos>, <pad> → log p of each sentence [B, W], given all its words at once."""
    with torch.no_grad():
        logits = model.decode(memory, words[:, :, :-1], model.begin(memory, words.shape[1])).logits
    gained = logits.log_softmax(-1).gather(3, words[:, :, 1:, None]).squeeze(3)
    return gained.masked_fill(words[:, :, 1:] == PAD, 0.0).sum(-1)


def all_sentences(limits: SentenceLimits, vocabulary: Vocabulary = VOCABULARY) -> Tensor:
    """[sentences, max_length + 2]: everything that the limits allow."""
    ids = range(vocabulary.unk + (not limits.unknown), len(vocabulary))
    rows = []
    for length in range(limits.min_length, limits.max_length + 1):
        for words in product(ids, repeat=length):
            padding = [vocabulary.pad] * (limits.max_length - length)
            rows.append([vocabulary.bos, *words, vocabulary.eos, *padding])
    return torch.tensor(rows)


def sentences(found: Hypotheses) -> list[list[list[int]]]:
    """The words between <bos> and <eos> of every real hypothesis; what follows <eos> must be padding."""
    result: list[list[list[int]]] = []
    for rows, logprobs in zip(found.words.tolist(), found.logprob.tolist(), strict=True):
        result.append([])
        for row, logprob in zip(rows, logprobs, strict=True):
            if logprob > float("-inf"):
                end = row.index(EOS)
                assert row[0] == BOS
                assert set(row[end + 1 :]) <= {PAD}
                result[-1].append(row[1:end])
    return result
