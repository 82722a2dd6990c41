from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoca.assets import meteor as word_lists
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


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Language:
    """Three function words, one pair of synonyms and one of paraphrases, packed as METEOR's own are."""
    folder, jar = tmp_path_factory.mktemp("meteor"), io.BytesIO()
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("function/english.words", "a\nof\nthe\n")
        file.writestr("synonym/english.synsets", "automobile\n7\ncar\n7 8\n")
        file.writestr("synonym/english.exceptions", "people\nperson\n")
    with zipfile.ZipFile(folder / "archive.zip", "w") as file:
        file.writestr(word_lists.JAR, jar.getvalue())
        file.writestr(word_lists.PARAPHRASES, gzip.compress(b"0.5\nmany\na lot of\n"))
    word_lists.convert(folder / "archive.zip", folder / "words.safetensors")
    return Language(folder / "words.safetensors")


# With P and R the weights of what matched over those of all words, METEOR is 1 / (0.15/P + 0.85/R), times
# 1 - 0.6·(chunks / matched words)^0.2. A function word weighs 1/4, another one 3/4; a stem counts 0.6 of itself, a
# synonym 0.8, a paraphrase 0.6. Words that all match in one chunk are not fragmented at all.
BY_HAND = [
    ("a dog barks", "a dog barks", 1.0),
    ("dog barks", "dog barks all night", 1 / (0.15 / 1 + 0.85 / (2 / 4)) * (1 - 0.6 * (1 / 2) ** 0.2)),
    ("night falls dog barks", "dog barks", 1 / (0.15 / (2 / 4) + 0.85 / 1) * (1 - 0.6 * (1 / 2) ** 0.2)),
    ("loud dog barks", "dog barks loud", 1 - 0.6 * (2 / 3) ** 0.2),  # all words, two chunks
    ("the dog", "a dog", 3 / 4 * (1 - 0.6 * 1)),  # 3/4 of 3/4 + 1/4, on either side
    ("dogs bark", "dog bark", (0.6 + 1) / 2),  # `dog` is the stem of `dogs`
    ("red car", "red automobile", (1 + 0.8) / 2),
    # `many`, of the weight 3/4, is `a lot of`, of 1/4 + 3/4 + 1/4.
    ("many cats", "a lot of cats", 1 / (0.15 / ((0.6 + 1) / 2) + 0.85 / ((0.6 * 5 / 4 + 3 / 4) / 2))),
    ("cat", "dog", 0.0),
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("candidate", "reference", "expected"), BY_HAND)
def test_scores_are_those_of_the_formula(
    candidate: str, reference: str, expected: float, made_up: Language, compiled: bool
) -> None:
    meteor = Meteor([[reference.split()]], made_up, compiled)
    assert meteor([candidate.split()])[1].tolist() == pytest.approx([expected], rel=1e-12)
    among_others = Meteor([[["else"], reference.split(), ["other"]]], made_up, compiled)
    assert among_others([candidate.split()])[1].tolist() == pytest.approx([expected], rel=1e-12)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_corpus_is_one_long_sentence_but_for_its_chunks(made_up: Language, compiled: bool) -> None:
    """Of the first, second and fourth row of the table: words of the weights 1/4 + 2·3/4, 2·3/4 and 3·3/4, all of which
    match, for 1/4 + 2·3/4, 4·3/4 and 3·3/4; no chunk (it is the same), one and two, of eight words."""
    rows = [BY_HAND[number] for number in (0, 1, 3)]
    meteor = Meteor([[reference.split()] for _, reference, _ in rows], made_up, compiled)
    corpus, _ = meteor([candidate.split() for candidate, _, _ in rows])
    recall = (22 / 4) / (28 / 4)
    assert corpus == pytest.approx(1 / (0.15 / 1 + 0.85 / recall) * (1 - 0.6 * (3 / 8) ** 0.2), rel=1e-12)


@pytest.mark.parametrize("words", [128, 129])
def test_the_last_word_of_a_long_sentence_matches_too(made_up: Language, words: int) -> None:
    """The compiled loop has 128 places for words; beyond them, word 128 would take that of word 64."""
    long, short = [*(f"w{number}" for number in range(words - 1)), "same"], ["same", "w64", "same"]
    # Of the long sentence and of the short one, two words match, in two chunks.
    few, most = 2 / words, 2 / 3
    scores = Meteor([[long], [short], [["same", *long]]], made_up)([short, long, ["same", *long]])[1]
    assert scores.tolist() == pytest.approx([0.4 / (0.15 / most + 0.85 / few), 0.4 / (0.15 / few + 0.85 / most), 1.0])


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
    np.testing.assert_array_equal(fast._scored([candidate], None)[0], slow._scored([candidate], None)[0])


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    references=st.lists(st.lists(SENTENCE, min_size=1, max_size=3), min_size=2, max_size=4),
    candidates=st.lists(st.tuples(st.integers(0, 99), SENTENCE), max_size=6),
)
def test_several_candidates_of_a_video_score_as_each_alone(
    references: list[list[list[str]]], candidates: list[tuple[int, list[str]]], compiled: bool, language: Language
) -> None:
    if compiled and compiled_loop() is None:
        pytest.skip("the C extension was not built")
    video = np.array([number % len(references) for number, _ in candidates], np.int64)
    found = Meteor(references, language, compiled).of_rows([words for _, words in candidates], video)
    alone = [
        Meteor([references[at]], language, compiled)([words])[1][0]
        for at, (_, words) in zip(video, candidates, strict=True)
    ]
    np.testing.assert_array_equal(found, alone)


def test_a_candidate_that_is_too_long_for_the_compiled_loop_is_scored_beside_others(language: Language) -> None:
    references = [[["a", "b", "c"]], [["d", "e"]]]
    long = ["d"] + ["e"] * 200
    found = Meteor(references, language).of_rows([["a", "b"], long, ["d", "e"]], np.array([0, 1, 1]))
    plain = Meteor(references, language, compiled=False)
    np.testing.assert_array_equal(found, plain.of_rows([["a", "b"], long, ["d", "e"]], np.array([0, 1, 1])))


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
