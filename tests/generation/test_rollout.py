from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from hoca.errors import UserError
from hoca.generation import SentenceLimits, greedy, sample
from hoca.generation.rollout import keep_top
from hoca.text import Vocabulary

from .tiny import VOCABULARY, all_sentences, captioner, encoded, sentences, teacher_forced, videos

SHORT = SentenceLimits(max_length=6)


def test_greedy_takes_the_likeliest_allowed_word_each_time() -> None:
    model = captioner(1)
    memory = encoded(model)
    found = greedy(model, memory, SHORT)
    with torch.no_grad():
        logits = model.decode(memory, found.words[:, :, :-1], model.begin(memory, 1)).logits
    for video, (row,) in enumerate(sentences(found)):
        for place, word in enumerate([*row, VOCABULARY.eos]):
            allowed = [4, 5, 6] if place == 0 else [VOCABULARY.eos, 4, 5, 6]
            if place < SHORT.max_length:
                assert word == max(allowed, key=logits[video, 0, place].tolist().__getitem__)


@pytest.mark.parametrize("search", [greedy, lambda *args: sample(*args, count=5, seed=3, temperature=1.7, top_k=2)])
def test_log_probabilities_are_those_of_teacher_forcing(search: Any) -> None:
    for seed in range(6):
        model = captioner(seed)
        memory = encoded(model)
        found = search(model, memory, SHORT)
        torch.testing.assert_close(found.logprob, teacher_forced(model, memory, found.words))
        assert torch.equal(found.score, found.logprob)
        assert (found.logprob.diff(dim=1) <= 0).all()


def test_greedy_of_a_batch_is_that_of_its_videos_and_a_finished_sentence_stays() -> None:
    waited = 0
    for seed in range(12):
        model, features = captioner(seed, ending=1.0), videos()
        lengths = {"image": torch.tensor([4, 2, 3]), "motion": torch.tensor([1, 0, 4])}
        with torch.no_grad():
            together = greedy(model, model.encode(features, lengths), SentenceLimits(max_length=12))
            for video in range(3):
                part = slice(video, video + 1)
                memory = model.encode(
                    {m: x[part] for m, x in features.items()}, {m: x[part] for m, x in lengths.items()}
                )
                single = greedy(model, memory, SentenceLimits(max_length=12))
                waited += single.words.shape[2] < together.words.shape[2]
                assert sentences(single)[0] == sentences(together)[video]
                torch.testing.assert_close(single.logprob[0], together.logprob[video])
    assert waited >= 6


def test_a_finished_sentence_does_not_depend_on_how_long_others_may_grow() -> None:
    model = captioner(2, ending=1.0)
    memory = encoded(model)
    longest = greedy(model, memory, SentenceLimits(max_length=15))
    for max_length in range(1, 15):
        found = greedy(model, memory, SentenceLimits(max_length=max_length))
        for video, ((row,), (whole,)) in enumerate(zip(sentences(found), sentences(longest), strict=True)):
            assert row == whole[:max_length]
            if len(whole) < max_length:
                assert found.logprob[video, 0] == longest.logprob[video, 0]


def test_a_seed_repeats_and_another_does_not() -> None:
    model = captioner()
    memory = encoded(model)
    first, again, other = (sample(model, memory, SHORT, count=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.words, again.words)
    assert not torch.equal(first.words, other.words)


def test_without_a_seed_torchs_own_decides_and_goes_on() -> None:
    model = captioner()
    memory = encoded(model)
    runs = []
    for _ in range(2):
        torch.manual_seed(7)
        runs.append([sample(model, memory, SHORT, count=8).words for _ in range(2)] + [torch.rand(3)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    assert not torch.equal(*runs[0][:2])


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}], ids=str)
def test_the_narrowest_sampling_is_greedy(options: dict[str, float]) -> None:
    for seed in range(10):
        model = captioner(seed)
        memory = encoded(model)
        drawn = sample(model, memory, SHORT, count=2, seed=seed, **options)
        likeliest = greedy(model, memory, SHORT)
        assert torch.equal(drawn.words, likeliest.words.expand_as(drawn.words))


def test_great_heat_makes_all_words_alike() -> None:
    model = captioner()
    found = sample(model, encoded(model, 1), SentenceLimits(max_length=1), count=6000, temperature=1e6, seed=0)
    counts = Counter(row[0] for row in sentences(found)[0])
    assert all(abs(counts[word] / 6000 - 1 / 3) < 0.03 for word in (4, 5, 6))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sentences_come_as_often_as_the_model_says(temperature: float) -> None:
    """Words outside the limits are left out and the others share their probability: a chi-square test, fixed seed."""
    count, limits = 20_000, SentenceLimits(max_length=2)
    model = captioner(4)
    memory = encoded(model, 1)
    everything = all_sentences(limits)
    with torch.no_grad():
        logits = model.decode(memory, everything[None, :, :-1], model.begin(memory, len(everything))).logits
    logprob = torch.log_softmax(logits[0], -1) / temperature  # [sentences, 3, V]
    permitted = torch.full((3, len(VOCABULARY)), float("-inf")).double()
    permitted[0, 4:], permitted[1, 4:], permitted[1:, VOCABULARY.eos] = 0.0, 0.0, 0.0
    chance = torch.softmax(logprob + permitted, -1).gather(2, everything[:, 1:, None]).squeeze(2)
    chance = chance.masked_fill(everything[:, 1:] == VOCABULARY.pad, 1.0).prod(1)
    torch.testing.assert_close(chance.sum(), torch.tensor(1.0).double())

    found = sample(model, memory, limits, count=count, temperature=temperature, seed=0)
    counted = Counter(tuple(row) for row in sentences(found)[0])
    observed = torch.tensor([counted[tuple(w for w in row if w >= 4)] for row in everything.tolist()]).double()
    assert observed.sum() == count
    often = chance * count >= 5
    chi = ((observed - chance * count) ** 2 / (chance * count))[often].sum()
    assert often.sum() >= 4
    assert chi < 32  # 11 degrees of freedom at most: exceeded once in a thousand


def test_top_k_and_top_p_keep_what_they_say() -> None:
    probabilities = torch.tensor([[[0.1, 0.4, 0.05, 0.3, 0.15]]])

    def kept(top_k: int, top_p: float) -> list[int]:
        return keep_top(probabilities.log(), top_k, top_p)[0, 0].isfinite().nonzero()[:, 0].tolist()

    assert kept(0, 1.0) == [0, 1, 2, 3, 4]
    assert kept(2, 1.0) == [1, 3]
    assert kept(9, 1.0) == [0, 1, 2, 3, 4]
    assert kept(0, 0.39) == [1]
    assert kept(0, 0.5) == [1, 3]
    assert kept(0, 0.8) == [1, 3, 4]
    assert kept(2, 0.8) == [1, 3]
    torch.testing.assert_close(keep_top(probabilities.log(), 0, 1.0), probabilities.log())


@pytest.mark.parametrize(("temperature", "top_p"), [(1e6, 0.5), (3.0, 0.7), (3.0, 0.8), (0.3, 0.8)])
def test_top_p_keeps_words_by_their_probability_at_the_temperature(temperature: float, top_p: float) -> None:
    model = captioner(4)
    memory = encoded(model, 1)
    with torch.no_grad():
        logits = model.decode(memory, torch.tensor([[[VOCABULARY.bos]]]), model.begin(memory, 1)).logits
    words = (4, 5, 6)  # all that may come first

    def likeliest(heat: float) -> set[int]:
        """The fewest words that together have the probability `top_p`."""
        chance = dict(zip(words, torch.softmax(logits[0, 0, 0, 4:] / heat, -1).tolist(), strict=True))
        kept: set[int] = set()
        for word in sorted(words, key=chance.__getitem__, reverse=True):
            if sum(chance[each] for each in kept) < top_p:
                kept.add(word)
        return kept

    found = sample(model, memory, SentenceLimits(max_length=1), count=400, temperature=temperature, top_p=top_p, seed=0)
    assert {row[0] for row in sentences(found)[0]} == likeliest(temperature) != likeliest(1.0)


def test_top_p_of_1_keeps_words_that_rounding_would_lose() -> None:
    logprobs = torch.tensor([[[0.0, *([-19.0] * 50)]]])
    assert keep_top(logprobs, 0, 1.0).isfinite().all()


@pytest.mark.parametrize(
    "options",
    [
        *({"temperature": value} for value in (0.0, -1.0, float("nan"), float("inf"))),
        *({"top_p": value} for value in (0.0, 1.1, float("nan"))),
        {"top_k": -1},
        {"count": 0},
    ],
    ids=str,
)
def test_impossible_sampling_is_named(options: dict[str, Any]) -> None:
    model = captioner()
    ((key, value),) = options.items()
    with pytest.raises(UserError, match=f"{key}={value}"):
        sample(model, encoded(model), **options)


def test_a_larger_vocabulary_and_the_default_limits() -> None:
    vocabulary = Vocabulary([f"w{i}" for i in range(40)])
    model = captioner(0, vocabulary, ending=-9.0).float()
    with torch.no_grad():
        memory = model.encode({m: x.float() for m, x in videos(2).items()}, {})
    found = greedy(model, memory)
    assert found.words.shape[2] <= 32
    assert all(1 <= len(rows[0].split()) <= 30 for rows in found.texts(vocabulary))
