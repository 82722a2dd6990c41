"""The words that tell videos apart: frequent ones, none that only hold sentences together."""

from __future__ import annotations

import torch

from hoca.models.parts.lexicon import WordList, frequent_words
from hoca.text import Vocabulary

REFERENCES = [
    ["A man plays the guitar.", "a man is playing"],
    ["a dog runs", "the dog is running on the grass", "a dog"],
    ["a man and a dog"],
]


def test_the_words_of_most_videos_come_first_and_stop_words_not_at_all() -> None:
    assert frequent_words(REFERENCES, 2) == ["dog", "man"]  # in two videos each, however often they are said
    assert frequent_words(REFERENCES, 5) == ["dog", "man", "grass", "guitar", "playing"]
    assert not {"a", "the", "is", "on", "and"} & set(frequent_words(REFERENCES, 99))


def test_a_list_has_known_words_only_and_tells_which_of_them_captions_have() -> None:
    vocabulary, listed = Vocabulary(["a", "man", "grass", "dog"]), WordList(5)
    assert listed.fit(REFERENCES, vocabulary)
    assert listed.ids.tolist() == [vocabulary["dog"], vocabulary["man"], vocabulary["grass"], -1, -1]
    torch.testing.assert_close(listed.frequency, torch.tensor([2 / 3, 2 / 3, 1 / 3, 0.0, 0.0]))
    assert listed.labels(["the man", "a guitar on the Grass"], vocabulary).tolist() == [0, 1, 1, 0, 0]
    named = listed.named(torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.5]]), vocabulary)
    assert list(named) == ["dog", "man", "grass"]


def test_a_list_that_weights_were_trained_for_stays() -> None:
    listed = WordList(2)
    listed.fit(REFERENCES, Vocabulary(["man", "dog", "bird"]))
    before = listed.ids.tolist()
    assert not listed.fit([["a bird"], ["a bird"]], Vocabulary(["man", "dog", "bird"]))
    assert listed.ids.tolist() == before
