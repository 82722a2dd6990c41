from __future__ import annotations

import pytest
import torch

from hoca.errors import UserError
from hoca.generation import SentenceLimits, beam_search, greedy

from .tiny import VOCABULARY, all_sentences, captioner, encoded, sentences, teacher_forced, videos

SHORT = SentenceLimits(max_length=3)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_1_is_greedy(length_penalty: float) -> None:
    for seed in range(20):
        model = captioner(seed)
        memory = encoded(model)
        for limits in (SentenceLimits(max_length=8), SentenceLimits(min_length=2, max_length=6, no_repeat=2)):
            beam = beam_search(model, memory, limits, width=1, length_penalty=length_penalty)
            likeliest = greedy(model, memory, limits)
            assert torch.equal(beam.words, likeliest.words)
            torch.testing.assert_close(beam.logprob, likeliest.logprob)


@pytest.mark.parametrize("length_penalty", [0.0, 0.7, 1.0])
@pytest.mark.parametrize(
    "limits", [SHORT, SentenceLimits(0, 3), SentenceLimits(2, 3), SentenceLimits(1, 2, unknown=True)], ids=str
)
def test_a_wide_enough_beam_is_exhaustive_search(limits: SentenceLimits, length_penalty: float) -> None:
    everything = all_sentences(limits)
    for seed in range(4):
        model = captioner(seed)
        memory = encoded(model)
        words = everything.expand(3, *everything.shape)
        logprob = teacher_forced(model, memory, words)
        length = (everything != VOCABULARY.pad).sum(-1) - 1  # <eos> counts, <bos> does not
        score, order = (logprob / length**length_penalty).sort(dim=1, descending=True)
        found = beam_search(model, memory, limits, width=len(everything) + 5, length_penalty=length_penalty)
        assert torch.equal(found.words[:, : len(everything)], everything[order])
        torch.testing.assert_close(found.logprob[:, : len(everything)], logprob.gather(1, order))
        torch.testing.assert_close(found.score[:, : len(everything)], score)
        assert (found.logprob[:, len(everything) :] == float("-inf")).all()


def test_places_left_empty_are_no_texts() -> None:
    model = captioner()
    found = beam_search(model, encoded(model), SentenceLimits(max_length=1), width=7)
    assert found.words.shape[:2] == (3, 7)
    assert [sorted(texts) for texts in found.texts(VOCABULARY)] == [["a", "dog", "runs"]] * 3


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_n_best_are_sorted_and_distinct_and_scored_as_teacher_forcing_does(length_penalty: float) -> None:
    for seed in range(8):
        model = captioner(seed, ending=1.0)
        memory = encoded(model)
        found = beam_search(model, memory, SentenceLimits(max_length=7), width=5, length_penalty=length_penalty)
        assert (found.score.diff(dim=1) <= 0).all()
        torch.testing.assert_close(found.logprob, teacher_forced(model, memory, found.words))
        for rows in sentences(found):
            assert len({tuple(row) for row in rows}) == 5
        lengths = torch.tensor([[len(row) + 1.0 for row in rows] for rows in sentences(found)])
        torch.testing.assert_close(found.score, found.logprob / lengths**length_penalty)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_batch_is_its_videos_one_by_one_and_a_finished_sentence_waits_unchanged(length_penalty: float) -> None:
    """Alone, a search stops when its sentences are finished; in the batch they stand by while others go on."""
    waited = 0
    for seed in range(12):
        model = captioner(seed, ending=2.0)
        features = videos()
        lengths = {"image": torch.tensor([4, 2, 3]), "motion": torch.tensor([1, 0, 4])}
        limits = SentenceLimits(max_length=12)
        with torch.no_grad():
            together = beam_search(
                model, model.encode(features, lengths), limits, width=3, length_penalty=length_penalty
            )
            for video in range(3):
                part = slice(video, video + 1)
                memory = model.encode(
                    {m: x[part] for m, x in features.items()}, {m: x[part] for m, x in lengths.items()}
                )
                single = beam_search(model, memory, limits, width=3, length_penalty=length_penalty)
                waited += single.words.shape[2] < together.words.shape[2]
                assert sentences(single)[0] == sentences(together)[video]
                torch.testing.assert_close(single.logprob[0], together.logprob[video])
    assert waited >= 6


def test_a_wider_beam_never_loses_the_best_when_the_narrow_one_found_everything() -> None:
    model = captioner(3)
    memory = encoded(model)
    best = beam_search(model, memory, SHORT, width=39)
    for width in (40, 64):
        assert torch.equal(beam_search(model, memory, SHORT, width=width).words[:, 0], best.words[:, 0])


def test_length_normalisation_favours_longer_sentences() -> None:
    plain, normalised = 0, 0
    for seed in range(10):
        model = captioner(seed, ending=1.0)
        memory = encoded(model)
        for penalty in (0.0, 2.0):
            found = beam_search(model, memory, SentenceLimits(max_length=10), width=8, length_penalty=penalty)
            words = sum(len(rows[0]) for rows in sentences(found))
            plain, normalised = plain + words * (penalty == 0), normalised + words * (penalty > 0)
    assert normalised > plain


def test_a_width_below_1_is_an_error() -> None:
    model = captioner()
    with pytest.raises(UserError, match="width is 0"):
        beam_search(model, encoded(model), width=0)
