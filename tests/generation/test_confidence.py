"""How sure a sentence is: three signals of the search, and a probability from them."""

from __future__ import annotations

import math

import pytest
import torch

from hoca.errors import UserError
from hoca.generation import Confidence, Hypotheses
from hoca.generation.confidence import SIGNALS, signals
from hoca.text import SPECIALS, Vocabulary

WORDS = Vocabulary(["a", "dog", "cat", "runs"])
A, DOG, CAT, RUNS = range(len(SPECIALS), len(SPECIALS) + 4)


def found(*sentences: list[int], logprob: list[float]) -> Hypotheses:
    rows = [[WORDS.bos, *words, WORDS.eos] for words in sentences]
    longest = max(map(len, rows))
    words = torch.tensor([[row + [WORDS.pad] * (longest - len(row)) for row in rows]])
    return Hypotheses(words, torch.tensor([logprob]), torch.tensor([logprob]))


def test_the_signals_are_those_of_the_best_sentence() -> None:
    beam = found([A, DOG], [A, CAT, RUNS], logprob=[-3.0, -3.0])
    logprob, evidence, agreement = signals(beam, torch.tensor([[0.7, 9.0]]))[0].tolist()
    assert logprob == pytest.approx(-1.0)  # of two words and the end
    assert evidence == pytest.approx(0.7)
    assert agreement == pytest.approx(0.5 * 1 + 0.5 * 2 / 5)  # itself, and one word of two and three


def test_an_unlikely_sentence_hardly_counts_and_an_empty_place_not_at_all() -> None:
    alone = signals(found([A, DOG], [CAT], logprob=[-1.0, -math.inf]), torch.zeros(1, 2))
    assert alone[0, 2] == pytest.approx(1.0)
    rare = signals(found([A, DOG], [CAT], logprob=[-1.0, -12.0]), torch.zeros(1, 2))
    assert rare[0, 2] > 0.99


def test_videos_of_a_batch_are_told_apart() -> None:
    one, other = found([A, DOG], [A, CAT], logprob=[-2.0, -3.0]), found([CAT, RUNS], [DOG, A], logprob=[-4.0, -4.5])
    both = Hypotheses(*(torch.cat([getattr(x, n) for x in (one, other)]) for n in ("words", "logprob", "score")))
    seen = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    torch.testing.assert_close(signals(both, seen)[:1], signals(one, seen[:1]))
    torch.testing.assert_close(signals(both, seen)[1:], signals(other, seen[1:]))


def test_it_is_a_probability_that_rises_with_what_is_weighed() -> None:
    sure = Confidence(bias=0.5, logprob=2.0, evidence=1.0)
    beam = found([A, DOG], [A, CAT], logprob=[-3.0, -4.0])
    less, more = (float(sure(beam, torch.tensor([[value, 0.0]]))[0]) for value in (0.0, 1.0))
    assert less == pytest.approx(1 / (1 + math.exp(1.5)), rel=1e-5)
    assert less < more < 1


def test_it_survives_a_checkpoint_header() -> None:
    sure = Confidence(1.0, 2.0, 3.0, 4.0)
    assert Confidence.from_json(sure.to_json()) == sure
    assert set(sure.to_json()) == {"bias", *SIGNALS}
    with pytest.raises(UserError, match="confidence"):
        Confidence.from_json("sure")
