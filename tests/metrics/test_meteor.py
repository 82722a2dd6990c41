from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoca.metrics import tokenize
from hoca.metrics.language import Language
from hoca.metrics.meteor import Meteor, compiled_loop, score
from hoca.metrics.normalizer import normalize
from hoca.metrics.stemmer import stem

# Statistics that METEOR 1.5 (Java) prints for a candidate and one reference.
JAVA = [
    ("guitar", "guitars", "1 1 0 0  0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0  0 0 0"),
    ("x guitar", "x guitars", "2 2 0 0  1 1 0 0 1 1 0 0 0 0 0 0 0 0 0 0  1 2 2"),
    ("ran", "run", "1 1 0 0  0 0 0 0 0 0 0 0 1 1 0 0 0 0 0 0  1 1 1"),
    ("is playing", "plays", "2 1 1 0  0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 0  1 2 1"),
    ("man is", "people are", "2 2 1 2  0 0 0 0 0 0 0 0 0 0 0 0 1 0 1 1  1 2 1"),
    ("the the the a", "the the a cat", "4 4 4 3  0 0 3 3 0 0 0 0 0 0 0 0 0 0 0 0  1 3 3"),
    ("a man is playing a guitar", "the man plays guitars", "6 4 3 1  0 0 0 0 0 0 0 0 0 0 0 0 2 2 2 1  1 4 3"),
]
WORDS = [
    "a", "the", "man", "men", "woman", "is", "are", "playing", "plays", "guitar", "guitars", "dog", "hound", "running",
    "runs", "with", "of", "group", "people",
]  # fmt: skip
SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)


@pytest.mark.parametrize(("candidate", "reference", "expected"), JAVA)
def test_alignment_has_the_statistics_of_the_original(
    candidate: str, reference: str, expected: str, language: Language
) -> None:
    meteor = Meteor([[reference.split()]], language, compiled=False)
    assert meteor._best(0, meteor._numbers(candidate.split())) == [float(value) for value in expected.split()]


@pytest.mark.skipif(compiled_loop() is None, reason="the C extension was not built")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(candidate=SENTENCE, references=st.lists(SENTENCE, min_size=1, max_size=4))
def test_compiled_and_plain_loops_agree(candidate: list[str], references: list[list[str]], language: Language) -> None:
    fast, slow = Meteor([references], language), Meteor([references], language, compiled=False)
    assert fast([candidate])[0] == slow([candidate])[0]
    numbers = fast._numbers(candidate)
    np.testing.assert_array_equal(fast._compiled([numbers])[0], slow._plain([numbers])[0])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(candidate=SENTENCE, reference=SENTENCE)
def test_laws_of_the_score(candidate: list[str], reference: list[str], language: Language) -> None:
    each = Meteor([[reference]], language)([candidate])[1]
    assert 0 <= each[0] <= 1
    assert Meteor([[reference, candidate]], language)([candidate])[1][0] == pytest.approx(1)
    assert Meteor([[reference, reference]], language)([candidate])[1][0] == each[0]


def test_very_long_sentences_take_the_plain_loop(language: Language) -> None:
    long = [f"w{number}" for number in range(200)]
    corpus, each = Meteor([[long], [["a", "dog"]]], language)([long, ["a", "dog"]])
    assert each.tolist() == [1, 1]
    assert corpus == 1


def test_a_real_sample_agrees_between_the_loops(
    test_references: dict[str, dict[int, list[str]]], language: Language
) -> None:
    videos = list(test_references["msvd"].values())[:12]
    references = [[tokenize(caption) for caption in captions[1:]] for captions in videos]
    candidates = [tokenize(captions[0]) for captions in videos]
    fast, slow = Meteor(references, language)(candidates), Meteor(references, language, compiled=False)(candidates)
    assert fast[0] == pytest.approx(slow[0], abs=1e-12)
    np.testing.assert_allclose(fast[1], slow[1], atol=1e-12)


def test_scores_of_known_statistics() -> None:
    assert score([6, 4, 3, 1, *[0] * 12, 2, 2, 2, 1, 1, 4, 3]) == pytest.approx(0.22218424171623322, abs=1e-12)
    assert score([0.0] * 23) == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a t-shirt", "a t shirt"),
        ("tug-o-war", "tug o-war"),
        ("it 's", "it ' s"),
        ("do n't", "do n 't"),
        ("u.s. army", "u.s. army"),
        ("mr. 5", "mr . 5"),
        ("mr. smith", "mr. smith"),
        ("1,000 x", "1,000 x"),
        ("and/or", "and / or"),
    ],
)
def test_normalizer_splits_as_meteor_does(words: str, expected: str) -> None:
    assert normalize(words.split(" ")) == expected.split(" ")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("running", "run"), ("dogs", "dog"), ("happily", "happili"), ("generously", "generous"), ("skies", "sky"),
     ("news", "news"), ("relational", "relat"), ("hopping", "hop"), ("hoping", "hope"), ("at", "at")],
)  # fmt: skip
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected
