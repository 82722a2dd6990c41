from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca.text.tokenizer import PUNCTUATION, tokenize

HARD = json.loads(Path(__file__).with_name("hard_captions.json").read_text("utf-8"))


@pytest.mark.parametrize(("caption", "tokens"), HARD)
def test_hard_captions_split_as_the_stanford_tokenizer_splits_them(caption: str, tokens: list[str]) -> None:
    assert tokenize(caption) == tokens


def test_plain_words_and_split_words() -> None:
    assert tokenize("A man cannot  see") == ["a", "man", "can", "not", "see"]
    assert tokenize("") == []
    assert tokenize("a dog runs .") == ["a", "dog", "runs"]


@given(st.text(max_size=60))
def test_any_text_gives_tokens_without_spaces_or_punctuation(caption: str) -> None:
    tokens = tokenize(caption)
    assert all(token and " " not in token for token in tokens)
    assert PUNCTUATION.isdisjoint(tokens)


@given(st.lists(st.from_regex("[a-z]{3,9}", fullmatch=True), max_size=12))
def test_a_final_period_changes_nothing(words: list[str]) -> None:
    plain = " ".join([*words, "dog"])
    assert tokenize(f"{plain} .") == tokenize(plain)
