from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.errors import UserError
from hoca.metrics import ALL, Evaluator, evaluate

WITHOUT_METEOR = tuple(name for name in ALL if name != "METEOR")
REFERENCES = {
    "one": ["a man is playing a guitar", "a person plays the guitar", "man plays guitar"],
    "two": ["a dog runs in the park", "the dog is running outside"],
    "three": ["a woman is slicing an onion"],
}
CANDIDATES = {"one": "a man plays a guitar", "two": "a dog is running", "three": "a woman cuts onions"}
RECORDED = {"Bleu_1": "BLEU-1", "Bleu_2": "BLEU-2", "Bleu_3": "BLEU-3", "Bleu_4": "BLEU-4", "ROUGE_L": "ROUGE-L"}


def test_published_scores_are_reproduced(shared_data: Path, evaluators: dict[str, Evaluator], language: object) -> None:
    files = sorted((shared_data / "predictions").glob("*.json"))
    assert files
    for file in files:
        content = json.loads(file.read_text())
        candidates = {entry["image_id"]: entry["caption"] for entry in content["predictions"]}
        scores = evaluators[file.stem.split("__")[1]].evaluate(candidates).corpus
        for recorded, name in {**RECORDED, "CIDEr": "CIDEr"}.items():
            assert scores[name] == pytest.approx(content["scores"][recorded], abs=0.51e-5), (file.name, name)
        assert scores["METEOR"] == pytest.approx(content["scores"]["METEOR"], abs=0.51e-5), file.name


def test_a_candidate_equal_to_its_only_reference_is_perfect() -> None:
    references = {"a": ["a cat sits on a mat today"], "b": ["two dogs run over the hill"]}
    scores = evaluate(references, {video: captions[0] for video, captions in references.items()}, WITHOUT_METEOR)
    assert scores.corpus["BLEU-4"] == pytest.approx(1, abs=1e-6)
    assert scores.corpus["ROUGE-L"] == pytest.approx(1)
    assert scores.corpus["CIDEr"] == pytest.approx(10)


def test_a_word_counts_as_often_as_the_reference_that_has_it_most() -> None:
    references = {"a": ["the cat and the dog", "the end"], "b": ["x"]}
    scores = evaluate(references, {"a": "the the the the the", "b": "x"}, ("BLEU-1",))
    assert scores.per_video["a"]["BLEU-1"] == pytest.approx(2 / 5)


def test_scores_per_video_average_to_the_corpus_where_the_metric_is_a_mean() -> None:
    scores = evaluate(REFERENCES, CANDIDATES, WITHOUT_METEOR)
    for name in ("ROUGE-L", "CIDEr"):
        values = [scores.per_video[video][name] for video in REFERENCES]
        assert scores.corpus[name] == pytest.approx(sum(values) / len(values))


@settings(deadline=None)
@given(st.permutations(list(REFERENCES)), st.randoms())
def test_order_of_videos_and_references_does_not_matter(order: list[str], random: object) -> None:
    shuffled = {video: random.sample(REFERENCES[video], len(REFERENCES[video])) for video in order}  # type: ignore[attr-defined]
    expected = evaluate(REFERENCES, CANDIDATES, WITHOUT_METEOR)
    found = evaluate(shuffled, CANDIDATES, WITHOUT_METEOR)
    for video in REFERENCES:
        assert found.per_video[video] == pytest.approx(expected.per_video[video])


def test_a_subset_of_metrics_has_the_same_values() -> None:
    everything = evaluate(REFERENCES, CANDIDATES, WITHOUT_METEOR)
    only = Evaluator(REFERENCES).evaluate(CANDIDATES, ("CIDEr",))
    assert only.corpus == {"CIDEr": everything.corpus["CIDEr"]}
    assert set(only.per_video["one"]) == {"CIDEr"}


def test_empty_captions_score_zero_and_empty_meets_empty_as_coco_caption_says(language: object) -> None:
    scores = evaluate(REFERENCES, {**CANDIDATES, "three": ""})
    assert scores.per_video["three"]["METEOR"] == 0
    assert scores.per_video["three"]["CIDEr"] == 0
    assert scores.per_video["three"]["BLEU-1"] == pytest.approx(0)
    empty = evaluate({"a": ["..."], "b": ["a dog"]}, {"a": "", "b": "a dog"}, ("ROUGE-L",))
    assert empty.per_video["a"]["ROUGE-L"] == pytest.approx(1)


def test_a_long_reference_is_aligned_word_by_word_as_a_short_one() -> None:
    long = " ".join(f"w{number}" for number in range(80))
    scores = evaluate({"a": [long], "b": ["x"]}, {"a": long, "b": "x"}, ("ROUGE-L",))
    assert scores.per_video["a"]["ROUGE-L"] == pytest.approx(1)


def test_cider_of_one_video_needs_document_frequencies() -> None:
    one = {"one": REFERENCES["one"]}
    with pytest.raises(UserError, match="document_frequencies"):
        evaluate(one, {"one": "a man"}, ("CIDEr",))
    frequencies = {("a",): 2.0, ("man",): 1.0, ("a", "man"): 1.0}
    given_ = Evaluator(one, document_frequencies=frequencies, documents=3).evaluate({"one": "a man"}, ("CIDEr",))
    assert 0 < given_.corpus["CIDEr"] < 10


def test_counted_document_frequencies_equal_the_same_ones_given() -> None:
    frequencies: dict[tuple[str, ...], float] = {}
    for captions in REFERENCES.values():
        grams = {
            tuple(w[i : i + n])
            for c in captions
            for w in [c.split()]
            for n in range(1, 5)
            for i in range(len(w) - n + 1)
        }
        for gram in grams:
            frequencies[gram] = frequencies.get(gram, 0) + 1
    given_ = Evaluator(REFERENCES, document_frequencies=frequencies, documents=len(REFERENCES))
    expected = evaluate(REFERENCES, CANDIDATES, ("CIDEr",)).corpus["CIDEr"]
    assert given_.evaluate(CANDIDATES, ("CIDEr",)).corpus["CIDEr"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ({"one": "a"}, "2 of 3 videos have no candidate"),
        ({**CANDIDATES, "four": "a"}, "1 candidates have no references, the first is 'four'"),
        ({**CANDIDATES, "two": ["a"]}, "'two' is list"),
    ],
)
def test_candidates_that_do_not_fit_are_refused_in_one_line(candidates: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        evaluate(REFERENCES, candidates, ("CIDEr",))
    assert "\n" not in str(error.value)


def test_unknown_metrics_and_empty_references_are_named() -> None:
    with pytest.raises(UserError, match="SPICE"):
        evaluate(REFERENCES, CANDIDATES, ("SPICE",))
    with pytest.raises(UserError, match="no references"):
        Evaluator({})
    with pytest.raises(UserError, match="'x'"):
        Evaluator({"x": []})
