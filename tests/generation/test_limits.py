from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.errors import UserError
from hoca.generation import Hypotheses, SentenceLimits, beam_search, greedy, sample
from hoca.text import Vocabulary

from .tiny import EOS, PAD, VOCABULARY, captioner, encoded, sentences

LIMITS = [
    SentenceLimits(max_length=4),
    SentenceLimits(min_length=3, max_length=3),
    SentenceLimits(min_length=0, max_length=0),
    SentenceLimits(min_length=2, max_length=9, no_repeat=2),
    SentenceLimits(min_length=4, max_length=12, no_repeat=1),
    SentenceLimits(min_length=12, max_length=12, no_repeat=3),
    SentenceLimits(max_length=5, unknown=True),
    SentenceLimits(max_length=9, no_repeat=2, not_first=tuple(VOCABULARY.tokens[4:6])),
]


def searches(seed: int, limits: SentenceLimits) -> list[Hypotheses]:
    model = captioner(seed, ending=-1.0)
    memory = encoded(model)
    return [
        greedy(model, memory, limits),
        beam_search(model, memory, limits, width=4),
        beam_search(model, memory, limits, width=3, length_penalty=1.0),
        sample(model, memory, limits, count=6, seed=seed),
    ]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_every_search_keeps_the_limits(limits: SentenceLimits) -> None:
    for seed in range(3):
        for found in searches(seed, limits):
            for row in (row for rows in sentences(found) for row in rows):
                nothing_new_left = allowed(row, limits) == [EOS]
                assert limits.min_length <= len(row) <= limits.max_length or nothing_new_left
                assert all(word >= VOCABULARY.unk + (not limits.unknown) for word in row)
                assert not row or VOCABULARY.tokens[row[0]] not in limits.not_first
                if limits.no_repeat:
                    pieces = [tuple(row[i : i + limits.no_repeat]) for i in range(len(row) - limits.no_repeat + 1)]
                    assert len(set(pieces)) == len(pieces)


@settings(max_examples=60, deadline=None)
@given(
    said=st.integers(0, 9).flatmap(
        lambda length: st.lists(
            st.lists(st.integers(VOCABULARY.unk, 6), min_size=length, max_size=length), min_size=1, max_size=4
        )
    ),
    no_repeat=st.integers(0, 4),
    min_length=st.integers(0, 10),
    unknown=st.booleans(),
    not_first=st.lists(st.sampled_from([*VOCABULARY.tokens[5:], "no word"]), unique=True).map(tuple),
)
def test_what_is_blocked_equals_a_plain_count(
    said: list[list[int]], no_repeat: int, min_length: int, unknown: bool, not_first: tuple[str, ...]
) -> None:
    limits = SentenceLimits(min_length, max_length=10, no_repeat=no_repeat, unknown=unknown, not_first=not_first)
    words = torch.tensor([[[VOCABULARY.bos, *row] for row in said]]).long()
    blocked = limits.blocked(words, VOCABULARY).expand(1, len(said), -1)[0].tolist()
    for row, found in zip(said, blocked, strict=True):
        assert [word for word, no in enumerate(found) if not no] == allowed(row, limits)


def allowed(said: list[int], limits: SentenceLimits) -> list[int]:
    n = limits.no_repeat
    pieces = [said[i : i + n] for i in range(len(said) - n + 1)]
    gone = {VOCABULARY[word] for word in limits.not_first if word in VOCABULARY} if not said else set()
    words = [
        word
        for word in range(VOCABULARY.unk + (not limits.unknown), len(VOCABULARY))
        if word not in gone and (not n or [*said[len(said) - n + 1 :], word] not in pieces)
    ]
    return [EOS, *words] if len(said) >= limits.min_length or not words else words


def test_at_the_longest_only_the_end_is_left() -> None:
    words = torch.tensor([[[VOCABULARY.bos, 4, 5], [VOCABULARY.bos, 6, EOS]]])
    blocked = SentenceLimits(max_length=2).blocked(words, VOCABULARY).expand(1, 2, -1)
    assert (~blocked).nonzero()[:, 2].tolist() == [EOS, EOS]


def test_the_end_at_the_longest_costs_what_the_model_says() -> None:
    """The last <eos> is forced, its probability is not: the sentence is no likelier than it is."""
    model = captioner(ending=-4.0)
    found = greedy(model, encoded(model), SentenceLimits(max_length=2))
    assert found.logprob.max() < -2


def test_a_model_with_many_words_never_repeats_pairs() -> None:
    vocabulary = Vocabulary([f"w{i}" for i in range(12)])
    model = captioner(5, vocabulary, ending=-6.0)
    found = beam_search(model, encoded(model), SentenceLimits(max_length=25, no_repeat=2), width=4)
    for row in (row for rows in sentences(found) for row in rows):
        pairs = list(pairwise(row))
        assert len(set(pairs)) == len(pairs) >= 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_length": 5, "max_length": 4}, "min_length=5 must lie between 0 and max_length=4"),
        ({"min_length": -1}, "min_length=-1"),
        ({"no_repeat": -1}, "no_repeat=-1"),
    ],
)
def test_impossible_limits_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SentenceLimits(**options)


def test_padding_is_never_said() -> None:
    for found in searches(0, SentenceLimits(max_length=6)):
        for rows in found.words.tolist():
            assert all(PAD not in row[: row.index(EOS)] for row in rows)
