from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from hoca.generation import Hypotheses, weigh

PAD, BOS, EOS = 0, 1, 2
DOG, CAT, BIG = 4, 5, 6


def found(*sentences: tuple[list[int], float]) -> Hypotheses:
    longest = max(len(words) for words, _ in sentences) + 2
    rows = [[BOS, *words, EOS] + [PAD] * (longest - len(words) - 2) for words, _ in sentences]
    score = torch.tensor([[score for _, score in sentences]])
    return Hypotheses(torch.tensor([rows]), score * 2, score)


def evidence(**of: float) -> torch.Tensor:
    row = torch.zeros(1, 7)
    for name, value in of.items():
        row[0, globals()[name]] = value
    return row


def test_the_sentence_whose_words_are_seen_comes_first() -> None:
    weighed = weigh(found(([DOG], -1.0), ([CAT], -1.1)), evidence(CAT=1.0), 0.5, PAD)
    assert weighed.words[0, :, 1].tolist() == [CAT, DOG]
    torch.testing.assert_close(weighed.score, torch.tensor([[-1.1 + 0.5 * 1.0 / 2, -1.0]]))
    torch.testing.assert_close(weighed.logprob, torch.tensor([[-2.2, -2.0]]))  # goes with its sentence
    torch.testing.assert_close(weighed.detected, torch.tensor([[0.25, 0.0]]))


def test_a_word_counts_once_and_is_shared_by_the_length() -> None:
    weighed = weigh(found(([DOG, DOG, BIG], -1.0)), evidence(DOG=2.0, BIG=-1.0), 1.0, PAD)
    torch.testing.assert_close(weighed.score, torch.tensor([[-1.0 + (2.0 - 1.0) / 4]]))


def test_places_left_empty_stay_last() -> None:
    weighed = weigh(found(([CAT], -1.0), ([DOG], float("-inf"))), evidence(DOG=100.0), 1.0, PAD)
    assert weighed.words[0, :, 1].tolist() == [CAT, DOG]


@given(st.lists(st.floats(-5, 0, width=32), min_size=1, max_size=6))
def test_without_evidence_the_order_stays(scores: list[float]) -> None:
    before = found(*(([DOG] * (n + 1), score) for n, score in enumerate(sorted(scores, reverse=True))))
    after = weigh(before, evidence(), 1.0, PAD)
    assert torch.equal(after.words, before.words)
    assert torch.equal(after.score, before.score)
