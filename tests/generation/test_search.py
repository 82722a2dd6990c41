from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from hoca.errors import UserError
from hoca.generation import Search, SentenceLimits, beam_search, greedy, weigh
from hoca.options import from_arguments

from .tiny import VOCABULARY, captioner, encoded, sentences


def test_the_defaults_are_the_papers() -> None:
    assert Search() == Search(beam=5, length_penalty=0.0, max_length=30, no_repeat=0, detector_weight=0.0)


def test_limits_are_its_own_and_else_the_usual() -> None:
    assert Search(max_length=7, no_repeat=2).limits == SentenceLimits(max_length=7, no_repeat=2)
    assert Search().limits == SentenceLimits()


def test_a_beam_of_one_is_greedy() -> None:
    model = captioner(1)
    memory = encoded(model)
    found, expected = Search(beam=1, max_length=6)(model, memory), greedy(model, memory, SentenceLimits(max_length=6))
    assert torch.equal(found.words, expected.words)
    assert torch.equal(found.logprob, expected.logprob)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_wider_one_is_a_beam_search_with_its_settings(length_penalty: float) -> None:
    model = captioner(2)
    memory = encoded(model)
    found = Search(beam=4, length_penalty=length_penalty, max_length=6, no_repeat=1)(model, memory)
    limits = SentenceLimits(max_length=6, no_repeat=1)
    expected = beam_search(model, memory, limits, width=4, length_penalty=length_penalty)
    assert torch.equal(found.words, expected.words)
    assert torch.equal(found.score, expected.score)
    assert all(len(set(row)) == len(row) <= 6 for rows in sentences(found) for row in rows)


def test_detected_words_count_where_they_have_a_weight_and_there_are_some() -> None:
    model = captioner(3)
    plain = encoded(model)
    evidence = torch.zeros(3, len(VOCABULARY)).double()
    evidence[:, VOCABULARY["runs"]] = 50.0
    memory = replace(plain, evidence=evidence)
    expected = beam_search(model, plain, SentenceLimits(max_length=4), width=8)
    for search, given in ((Search(8, max_length=4), memory), (Search(8, max_length=4, detector_weight=1.0), plain)):
        found = search(model, given)
        assert torch.equal(found.words, expected.words)
        assert torch.equal(found.score, expected.score)
    found = Search(8, max_length=4, detector_weight=1.0)(model, memory)
    weighed = weigh(expected, evidence, 1.0, VOCABULARY.pad)
    assert torch.equal(found.words, weighed.words)
    torch.testing.assert_close(found.score, weighed.score)
    assert not torch.equal(found.words, expected.words)
    seen = [["runs" in text.split() for text in texts] for texts in found.texts(VOCABULARY)]
    assert [has[0] for has in seen] == [any(has) for has in seen]
    assert any(has[0] for has in seen)


def test_json_and_back_is_equal() -> None:
    search = Search(beam=3, length_penalty=0.7, max_length=12, no_repeat=2, detector_weight=0.25)
    assert Search.from_json(json.loads(json.dumps(search.to_json()))) == search
    assert Search.from_json({"beam": 2}) == Search(beam=2)


def test_it_is_read_from_the_command_line() -> None:
    assert from_arguments(Search, ["beam=3", "length_penalty=1"]) == Search(beam=3, length_penalty=1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0}, "beam=0 must be at least 1 and below 1024"),
        ({"beam": 1024}, "beam=1024 must be at least 1 and below 1024"),
        ({"beam": 2.5}, "the search settings: beam=2.5 must be a whole number"),
        ({"beam": None}, "beam=None must be a whole number"),
        ({"length_penalty": -1}, "length_penalty=-1.0 must be at least 0"),
        ({"length_penalty": "nan"}, "length_penalty='nan' must be a number"),
        ({"max_length": 0}, "max_length=0 must be at least 1"),
        ({"max_length": 1 << 40}, "max_length=1099511627776 must be at least 1 and below 1024"),
        ({"no_repeat": -1}, "no_repeat=-1 must be at least 0"),
        ({"detector_weight": -0.5}, "detector_weight=-0.5 must be at least 0"),
        ({"baem": 3}, "the search settings: there is no key 'baem': did you mean 'beam'"),
        (None, "the search settings"),
        ([3], "the search settings"),
        ("wide", "the search settings"),
    ],
    ids=str,
)
def test_mistakes_are_named_in_one_line(values: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        Search.from_json(values)
    assert "\n" not in str(error.value)
