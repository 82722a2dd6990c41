"""Words and ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca.errors import UserError
from hoca.text import Vocabulary
from hoca.text.tokenizer import tokenize

CAPTIONS = ["A dog runs.", "a cat runs, a DOG sleeps", "the dog's bone"]


def test_special_ids_come_first() -> None:
    vocabulary = Vocabulary(["dog", "cat"])
    assert (vocabulary.pad, vocabulary.bos, vocabulary.eos, vocabulary.unk) == (0, 1, 2, 3)
    assert vocabulary.tokens == ["<pad>", "<bos>", "<eos>", "<unk>", "dog", "cat"]
    assert len(vocabulary) == 6
    assert "dog" in vocabulary
    assert "bird" not in vocabulary


def test_words_are_the_metrics_tokens_frequent_first_then_by_alphabet() -> None:
    vocabulary = Vocabulary.build(CAPTIONS)
    assert vocabulary.words[:3] == ["a", "dog", "runs"]
    assert vocabulary.words[3:] == sorted(vocabulary.words[3:])
    assert set(vocabulary.words) == {word for caption in CAPTIONS for word in tokenize(caption)}
    assert Vocabulary.build(CAPTIONS, minimum=3).words == ["a", "dog"]
    assert Vocabulary.build(reversed(CAPTIONS)) == vocabulary


def test_encode_puts_the_words_between_bos_and_eos() -> None:
    vocabulary = Vocabulary(["dog", "a"])
    assert vocabulary.encode("A dog, a bird!") == [1, 5, 4, 5, 3, 2]
    assert vocabulary.encode(["a", "Dog"]) == [1, 5, 3, 2]
    assert vocabulary.encode("") == [1, 2]


def test_decode_stops_at_eos() -> None:
    vocabulary = Vocabulary(["dog", "a"])
    assert vocabulary.decode([1, 5, 4, 3, 2, 5, 0]) == "a dog <unk>"
    assert vocabulary.decode([0, 0]) == ""


@given(st.lists(st.sampled_from(["a", "dog", "runs", "fast"])))
def test_decode_undoes_encode(words: list[str]) -> None:
    vocabulary = Vocabulary(["fast", "runs", "a", "dog"])
    assert vocabulary.decode(vocabulary.encode(words)) == " ".join(words)
    assert vocabulary.encode(" ".join(words)) == vocabulary.encode(words)


def test_json_and_back_is_equal() -> None:
    vocabulary = Vocabulary(["dog", "naïve", "犬"])
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again == vocabulary
    assert hash(again) == hash(vocabulary)
    assert again != Vocabulary(["naïve", "dog", "犬"])


@pytest.mark.parametrize("words", [{"a": 1}, "abc", None, 3], ids=str)
def test_json_that_is_no_list_is_an_error(words: object) -> None:
    with pytest.raises(UserError, match="expected a list of words"):
        Vocabulary.from_json(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dog", "cat", "dog"], "'dog' is word 0 and 2"),
        (["dog", ""], "word 1 is ''"),
        (["two words"], "without spaces"),
        ([3], "word 0 is 3"),
        ([["long"] * 10**5], "word 0 is a list, expected one word"),
        (["half", "\ud800"], "word 1 is '.ud800'"),
        (["<eos>"], "every vocabulary has"),
    ],
)
def test_a_word_that_cannot_be_one_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Vocabulary(words)


def test_too_high_a_minimum_is_an_error() -> None:
    with pytest.raises(UserError, match="no word occurs 9 times"):
        Vocabulary.build(CAPTIONS, minimum=9)
