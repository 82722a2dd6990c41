from __future__ import annotations

from hoca.text import content_words


def test_words_that_hold_a_sentence_together_are_left_out() -> None:
    assert content_words("A man is playing the guitar, and a man sings!") == [
        "man",
        "playing",
        "guitar",
        "man",
        "sings",
    ]
    assert content_words("this is it") == []
