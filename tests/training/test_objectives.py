"""What training minimises: eq. 24, its weighted form, rewards, and a model's own losses beside them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hoca
from hoca.data import Batch, Batches, FolderDataset
from hoca.generation import SentenceLimits, greedy
from hoca.metrics import CiderReward, Evaluator
from hoca.models import CaptionModel, create
from hoca.text import Vocabulary
from hoca.training import train
from hoca.training.objectives import (
    OBJECTIVES,
    REWARDS,
    WORDS,
    Objective,
    TeacherForcing,
    reward_of,
    word_losses,
)

from .tiny import column, rows, tiny, write_captions, write_dataset

NOWHERE = Path("nowhere")


def made(
    name: str, vocabulary: Vocabulary, references: Mapping[str, Sequence[str]] | None = None, **keys: Any
) -> Objective:
    recipe = tiny(NOWHERE, NOWHERE, objective=name, **keys)
    return OBJECTIVES[name](recipe.train, recipe.search, vocabulary, references or {})


def captions_of(dataset: FolderDataset) -> dict[str, Sequence[str]]:
    return {video.id: video.captions for video in dataset.videos("train")}


def whole_split(dataset: FolderDataset, vocabulary: Vocabulary, **options: Any) -> Batch:
    """All training videos with all their captions."""
    (batch,) = Batches(dataset, "train", vocabulary, batch_size=1000, **options)
    return batch


class TestWords:
    VOCABULARY = Vocabulary(["one", "two", "three", "four", "five"])

    def test_a_caption_costs_minus_the_log_of_its_probability(self) -> None:
        """eq. 24: words of probability 1/2, 1/4 and 1/8 cost (1 + 2 + 3) log 2."""
        words = torch.tensor([[[Vocabulary.bos, 4, 5, Vocabulary.eos]]])
        p = torch.full((1, 1, 3, len(self.VOCABULARY)), 1e-3)
        for place, probability in enumerate((1 / 2, 1 / 4, 1 / 8)):
            p[0, 0, place, words[0, 0, place + 1]] = 0.0
            p[0, 0, place] *= (1 - probability) / p[0, 0, place].sum()
            p[0, 0, place, words[0, 0, place + 1]] = probability
        batch = Batch(["a"], {}, {}, words, 1, 1)
        loss = made("xe", self.VOCABULARY).batch_loss(p.log(), batch)
        assert float(loss) == pytest.approx(6 * math.log(2), rel=1e-5)

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    def test_the_loss_is_the_sum_over_the_words_of_minus_log_p(self, smoothing: float) -> None:
        words = self.ragged_captions()
        logits = torch.randn(2, 2, 4, len(self.VOCABULARY), dtype=torch.float64)
        expected = 0.0
        for video in range(2):
            for caption in range(2):
                for place in range(4):
                    target = int(words[video, caption, place + 1])
                    if target == Vocabulary.pad:
                        continue
                    logp = torch.log_softmax(logits[video, caption, place], 0)
                    expected -= (1 - smoothing) * float(logp[target]) + smoothing * float(logp.mean())
        objective = made("xe", self.VOCABULARY, label_smoothing=smoothing)
        loss = objective.batch_loss(logits, Batch(["a", "b"], {}, {}, words, 3, 3))
        assert float(loss) == pytest.approx(expected, rel=1e-12)

    def ragged_captions(self) -> torch.Tensor:
        """[B 2, R 2, L + 1 5]: captions of 3, 1 and 2 words, and one that a video lacks."""
        words = torch.full((2, 2, 5), Vocabulary.pad)
        for place, said in {(0, 0): [4, 5, 6], (0, 1): [7], (1, 0): [8, 4]}.items():
            words[place][: len(said) + 2] = torch.tensor([Vocabulary.bos, *said, Vocabulary.eos])
        return words

    def test_padding_adds_nothing_and_learns_nothing(self) -> None:
        targets = torch.full((1, 2, 3), Vocabulary.pad)
        logits = torch.randn(1, 2, 3, 7, requires_grad=True)
        loss = word_losses(logits, targets, Vocabulary.pad).sum()
        loss.backward()
        assert loss.item() == 0
        assert not logits.grad.any()

    def test_a_caption_counts_what_it_weighs(self) -> None:
        words = self.ragged_captions()
        logits = torch.randn(2, 2, 4, len(self.VOCABULARY))
        each = word_losses(logits, words[:, :, 1:], Vocabulary.pad).sum(-1)  # [B, R]
        weights = torch.tensor([[0.5, 2.0], [3.0, 7.0]])
        loss = made("wxe", self.VOCABULARY).batch_loss(logits, Batch([], {}, {}, words, 3, 3, weights=weights))
        expected = 0.5 * each[0, 0] + 2 * each[0, 1] + 3 * each[1, 0]
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)


CORPUS = {
    "run": ["a man runs", "the man runs on a track", "a person is running", "a man runs"],
    "cook": ["a woman cooks", "a woman fries an egg in a pan", "someone cooks an egg"],
    "sing": ["a man sings", "a band plays a song"],
    "alone": ["a dog barks"],
}


class TestWeightedByConsensus:
    def test_a_caption_weighs_its_cider_against_the_others_of_its_video(self) -> None:
        """With the frequencies of all captions; the end of a sentence counts as a word; the mean weight is 1."""
        found = made("wxe", WORDS_OF_CORPUS, CORPUS).caption_weights()
        assert found is not None
        expected = {id: [self.consensus(id, place) for place in range(len(of))] for id, of in CORPUS.items()}
        several = [score for scores in expected.values() if len(scores) > 1 for score in scores]
        mean = sum(several) / len(several)
        assert mean > 0
        for id, scores in expected.items():  # a video's only caption has no other to agree with: it counts as the mean
            weights = [score / mean for score in scores] if len(scores) > 1 else [1.0]
            assert found[id] == pytest.approx(weights, abs=1e-9), id
        assert max(found["run"]) == found["run"][0] == found["run"][3]
        assert sum(map(sum, found.values())) == pytest.approx(sum(map(len, found.values())))

    def consensus(self, id: str, place: int) -> float:
        """CIDEr-D by `hoca.metrics` of one caption, its video's other captions being the references."""
        ended = {each: [f"{caption} end" for caption in captions] for each, captions in CORPUS.items()}
        candidate = ended[id].pop(place)
        if not ended[id]:
            return 0.0
        frequencies = Counter(gram for captions in CORPUS.values() for gram in self.grams(captions))
        evaluator = Evaluator(ended, document_frequencies=frequencies, documents=len(CORPUS))
        candidates = {each: candidate if each == id else captions[0] for each, captions in ended.items()}
        return evaluator.evaluate(candidates, ("CIDEr",)).per_video[id]["CIDEr"]

    def grams(self, captions: Sequence[str]) -> set[tuple[str, ...]]:
        said = [[*caption.split(), "end"] for caption in captions]
        return {
            tuple(words[first : first + size])
            for words in said
            for size in range(1, 5)
            for first in range(len(words) - size + 1)
        }

    def test_weights_of_one_are_cross_entropy(self, tmp_path: Path) -> None:
        """Videos of a single caption have no consensus: every caption counts the same, and the runs are alike."""
        data = write_dataset(tmp_path / "data", counts={"train": 8, "validation": 2})
        dataset = FolderDataset(data)
        lines = [{"id": v.id, "split": v.split, "captions": v.captions[:1]} for v in dataset.corpus.videos]
        write_captions(data, lines)
        captions = captions_of(FolderDataset(data))
        vocabulary = Vocabulary.build(caption for of in captions.values() for caption in of)
        assert made("wxe", vocabulary, captions).caption_weights() == {id: [1.0] for id in captions}
        found = {}
        for name in ("xe", "wxe"):
            found[name] = hoca.load(train(tiny(data, tmp_path / name, objective=name))).model.state_dict()
        assert rows(tmp_path / "xe") == rows(tmp_path / "wxe")
        assert all(torch.equal(value, found["wxe"][key]) for key, value in found["xe"].items())

    def test_training_follows_the_weights(self, tiny_data: Path, tmp_path: Path) -> None:
        """The first loss of a run by hand: the captions' losses times their weights."""
        keys = {"epochs": 1, "batch_size": 1000, "learning_rate": 0.0, "dropout": 0.0}
        run = train(tiny(tiny_data, tmp_path / "run", objective="wxe", **keys))
        model, dataset = hoca.load(run).model, FolderDataset(tiny_data)
        weights = made("wxe", model.vocabulary, captions_of(dataset)).caption_weights()
        total = count = 0.0
        for video in dataset.videos("train"):
            for weight, caption in zip(weights[video.id], video.captions, strict=True):
                words = torch.tensor([[model.vocabulary.encode(caption)]])
                logits = model(*dataset.padded([video.id]), words[:, :, :-1])
                total += weight * float(word_losses(logits, words[:, :, 1:], model.vocabulary.pad).sum().detach())
                count += 1
        assert column(run, "loss") == pytest.approx([total / count], rel=1e-5)


WORDS_OF_CORPUS = Vocabulary.build(caption for captions in CORPUS.values() for caption in captions)
SELF_CRITICAL = ["scst-loo", "scst-greedy", "scst-consensus"]
REWARD: dict[str, Any] = {"samples": 4, "xe_weight": 0.0, "learning_rate": 0.01, "dropout": 0.0}


@pytest.fixture(scope="module")
def first(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny(tiny_data, tmp_path_factory.mktemp("objectives") / "first", epochs=8))


class TestReward:
    @pytest.mark.parametrize("name", SELF_CRITICAL)
    def test_what_earns_more_becomes_likelier(self, name: str, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        changes = {"objective": name, "init_from": str(first), "epochs": 12}
        second = train(tiny(tiny_data, tmp_path / "run", **changes, **REWARD))
        assert self.expected(second, tiny_data) > self.expected(first, tiny_data) + 0.1

    def expected(self, run: Path, data: Path) -> float:
        """The mean reward of captions that the model draws of its training videos."""
        model, dataset = hoca.load(run).model, FolderDataset(data)
        objective = made("scst-loo", model.vocabulary, captions_of(dataset), samples=40)
        return float(objective.examples(model, whole_split(dataset, model.vocabulary)).targets[REWARDS].mean())

    def test_a_beam_learns_to_prefer_what_earns_more(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        changes = {"objective": "beam-reward", "init_from": str(first), "epochs": 6}
        second = train(tiny(tiny_data, tmp_path / "run", **changes, **REWARD))
        expected = [-loss for loss in column(second, "loss")]
        assert expected[-1] > expected[0] + 0.2

    def test_the_baseline_is_the_mean_of_the_others(self, tiny_data: Path) -> None:
        dataset = FolderDataset(tiny_data)
        vocabulary = Vocabulary.build(dataset.corpus.captions("train"))
        objective = made("scst-loo", vocabulary, captions_of(dataset), samples=3)
        video = dataset.videos("train")[1]
        drawn = np.full((3, 10), vocabulary.pad)
        for row, text in zip(drawn, [*video.captions[:2], "something"], strict=True):
            ids = vocabulary.encode(text)
            row[: len(ids)] = ids
        rewards = torch.from_numpy(objective.reward([video.id] * 3, drawn))[None]
        advantage = objective.advantages(rewards, None)
        assert float(advantage.sum()) == pytest.approx(0.0, abs=1e-5)
        assert int(advantage.argmin()) == 2

    def test_advantages_of_a_video_sum_to_zero(self) -> None:
        objective = made("scst-loo", Vocabulary(["a"]), CORPUS)
        by_hand = objective.advantages(torch.tensor([[3.0, 1.0, 2.0]]), None)
        assert by_hand.tolist() == [pytest.approx([3 - 1.5, 1 - 2.5, 0.0])]
        found = objective.advantages(torch.rand(50, 5, dtype=torch.float64) * 10, None)
        torch.testing.assert_close(found.sum(1), torch.zeros(50, dtype=torch.float64))
        assert bool((found.abs().sum(1) > 0).all())

    def scored(
        self, objective: Objective, own: torch.Tensor, rewards: torch.Tensor, baseline: torch.Tensor | None
    ) -> Batch:
        """A batch of these captions alone, as many as there are given ones."""
        given = torch.empty(len(own), 0, own.shape[2], dtype=torch.long)
        return objective.scored(Batch([], {}, {}, given, len(own), len(own)), own, rewards, baseline)

    def test_a_beam_earns_what_its_sentences_are_expected_to(self) -> None:
        objective = made("beam-reward", Vocabulary(["a"]), CORPUS)
        logprob = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]]).mul(0.01).log()
        earned = objective.earned(logprob, torch.tensor([[1.0, 2.0, 3.0], [4.0, 2.0, 9.0]]))
        assert earned.tolist() == pytest.approx([1.4, 3.0])

    def test_the_greedy_baseline_is_decoded_without_dropout(self, first: Path, tiny_data: Path) -> None:
        model, dataset = hoca.load(first).model, FolderDataset(tiny_data)
        objective = made("scst-greedy", model.vocabulary, captions_of(dataset), samples=2, max_length=10)
        batch = whole_split(dataset, model.vocabulary)
        said = greedy(model, model.encode(batch.features, batch.lengths), SentenceLimits(max_length=10))
        ended = {id: [f"{caption} end" for caption in captions] for id, captions in captions_of(dataset).items()}
        texts = {id: f"{text} end" for id, (text,) in zip(batch.ids, said.texts(model.vocabulary), strict=True)}
        scores = Evaluator(ended).evaluate(texts, ("CIDEr",)).per_video
        found = objective.examples(model.train(), batch)
        assert model.training
        expected = [scores[id]["CIDEr"] for id in batch.ids]
        rewards = found.targets[REWARDS]
        above = found.weights[:, :2] * rewards.numel() / batch.caption_count
        for baseline in (rewards - above).T:
            assert baseline.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert bool((found.weights[:, 2:] == objective.settings.xe_weight).all())
        assert sum(expected) > 0

    def test_the_consensus_baseline_is_what_the_captions_earn_against_each_other(self) -> None:
        objective = made("scst-consensus", WORDS_OF_CORPUS, CORPUS)
        weighed = TestWeightedByConsensus()
        scores = {id: [weighed.consensus(id, place) for place in range(len(of))] for id, of in CORPUS.items()}
        several = [score for of in scores.values() if len(of) > 1 for score in of]
        means = {id: sum(of) / len(of) if len(of) > 1 else sum(several) / len(several) for id, of in scores.items()}
        found = objective.baseline(list(CORPUS), None)
        assert found.tolist() == pytest.approx(list(means.values()))

    def test_the_consensus_does_not_depend_on_the_order_of_captions(self) -> None:
        turned = {id: captions[::-1] for id, captions in CORPUS.items()}
        found, other = (reward_of(each, WORDS_OF_CORPUS).of_references() for each in (CORPUS, turned))
        for id, scores in found.items():
            assert scores == pytest.approx(other[id][::-1])

    def test_meteor_is_added_as_the_metric_has_it(self) -> None:
        said = {"run": ["a person runs", "the man"], "cook": ["someone fries an egg", ""]}
        rows = [[WORDS_OF_CORPUS.encode(text) for text in texts] for texts in said.values()]
        own = torch.tensor([[row + [WORDS_OF_CORPUS.pad] * (6 - len(row)) for row in each] for each in rows])
        plain, weighed = (made("beam-reward", WORDS_OF_CORPUS, CORPUS, meteor_weight=w) for w in (0.0, 3.0))
        added = (weighed.rewards(list(said), own) - plain.rewards(list(said), own)) / 3.0
        for place in range(2):
            candidates = {id: texts[place] for id, texts in said.items()}
            scores = Evaluator({id: CORPUS[id] for id in said}).evaluate(candidates, ("METEOR",)).per_video
            assert added[:, place].tolist() == pytest.approx([scores[id]["METEOR"] for id in said], abs=1e-6)

    def test_words_outside_the_vocabulary_agree_with_themselves_alone(self) -> None:
        """Rewards and consensus are the metric's, whatever the model can say."""
        captions = {
            "a": ["a fireman runs", "a postman runs", "a fireman sits"],
            "b": ["a dog runs fast", "the dog runs"],
            "c": ["a cat sits", "the cat sits"],
        }
        vocabulary = Vocabulary.build([caption for each in captions.values() for caption in each], 3)
        assert "fireman" not in vocabulary
        reward = reward_of(captions, vocabulary)
        complete = reward_of(captions, Vocabulary.build(caption for each in captions.values() for caption in each))
        assert reward.of_references() == complete.of_references()
        said = {"a": "a runs", "b": "runs", "c": "a sits sits"}
        ended = {id: [f"{caption} end" for caption in each] for id, each in captions.items()}
        scores = Evaluator(ended).evaluate({id: f"{text} end" for id, text in said.items()}, ("CIDEr",)).per_video
        rows = [vocabulary.encode(text) for text in said.values()]
        words = np.array([row + [vocabulary.pad] * (5 - len(row)) for row in rows])
        assert reward(list(said), words).tolist() == pytest.approx([scores[id]["CIDEr"] for id in said])

    @pytest.mark.parametrize("name", SELF_CRITICAL)
    def test_what_earns_the_baseline_teaches_nothing(self, name: str) -> None:
        objective = made(name, Vocabulary(["a"]), CORPUS, xe_weight=0.0)
        logits = torch.randn(2, 3, 4, 5, requires_grad=True)
        rewards, baseline = torch.full((2, 3), 2.5), torch.full((2,), 2.5)
        batch = self.scored(objective, torch.randint(2, 5, (2, 3, 5)), rewards, baseline)
        objective.batch_loss(logits, batch).backward()
        assert logits.grad.abs().max() < 1e-6

    @pytest.mark.parametrize("name", SELF_CRITICAL)
    def test_the_gradient_is_that_of_the_expected_reward(self, name: str) -> None:
        """All pairs of captions of up to two words, each pair as likely as it is drawn, against d E[reward].

        After two words the end is forced: its score has no part in the expected reward.
        """
        vocabulary, limits = Vocabulary(["a", "b"]), SentenceLimits(max_length=2)
        objective = made(name, vocabulary, CORPUS, xe_weight=0.0, samples=2, max_length=2)
        scores = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((3,), (2, 3), (2, 3))]
        said = [[word, *others, vocabulary.eos] for word in (4, 5) for others in ([], [4], [5])]
        rewards = torch.rand(len(said), dtype=torch.float64)

        def logits(words: list[int]) -> torch.Tensor:
            """[L, V] of the choice among <eos>, a and b; no caption is empty."""
            rows = torch.full((3, len(vocabulary)), -1e9, dtype=torch.float64)
            rows[0, [4, 5]] = scores[0][1:]
            rows[1, [2, 4, 5]] = scores[1][words[0] - 4]
            if len(words) == 3:
                rows[2, [2, 4, 5]] = scores[2][words[1] - 4]
            return rows

        def probability(words: list[int]) -> torch.Tensor:
            """As a search within its limits draws it."""
            parts = []
            for place, row in enumerate(logits(words)[: len(words)]):
                before = torch.tensor([[[vocabulary.bos, *words[:place]]]])
                parts.append(row.masked_fill(limits.blocked(before, vocabulary)[0, 0], -1e9).softmax(0)[words[place]])
            return torch.stack(parts).prod()

        assert float(sum(probability(words).detach() for words in said)) == pytest.approx(1)
        expected = sum(probability(words) * reward for words, reward in zip(said, rewards, strict=True))
        exact = torch.autograd.grad(expected, scores, allow_unused=True)
        drawn = 0.0
        for (one, r1), (two, r2) in product(zip(said, rewards, strict=True), repeat=2):
            padded = [[vocabulary.bos, *words, *[vocabulary.pad] * (3 - len(words))] for words in (one, two)]
            baseline = torch.tensor([0.7], dtype=torch.float64)
            batch = self.scored(objective, torch.tensor([padded]), torch.stack([r1, r2])[None], baseline)
            places = batch.words.shape[2] - 1
            loss = objective.batch_loss(torch.stack([logits(one), logits(two)])[None, :, :places], batch)
            drawn = drawn - (probability(one) * probability(two)).detach() * loss
        for found, other in zip(torch.autograd.grad(drawn, scores, allow_unused=True), exact, strict=True):
            zero = torch.zeros(2, 3, dtype=torch.float64)
            torch.testing.assert_close(zero if found is None else found, zero if other is None else other)

    def test_a_beam_with_fewer_sentences_than_places_learns_from_those(self) -> None:
        """A vocabulary of one word, and one word at most: there is one sentence, whatever the beam's width."""
        vocabulary = Vocabulary(["a"])
        model = create("hoca-u", {"image": 3}, vocabulary, hidden=4, attention=4, embedding=4, dropout=0.0)
        objective = made("beam-reward", vocabulary, {"x": ["a", "a"], "y": ["a"]}, samples=3, max_length=1)
        features, given = {"image": torch.randn(1, 2, 3)}, torch.tensor([[[1, 4, 2]]])
        batch = objective.examples(model, Batch(["x"], features, {"image": torch.tensor([2])}, given, 1, 1))
        own = batch.words[:, :3]
        assert own.tolist() == [[[1, 4, 2], [0, 0, 0], [0, 0, 0]]]
        logits = torch.randn(1, 4, 2, len(vocabulary))
        rewards = batch.targets[REWARDS]
        batch = replace(batch, targets={REWARDS: torch.tensor([[2.0, 50.0, 70.0]])})
        assert rewards.shape == (1, 3)
        given_loss = objective.settings.xe_weight * objective.loss(logits[:, 3:], given[:, :, 1:])
        assert float(objective.batch_loss(logits, batch) - given_loss) == pytest.approx(-2.0, abs=1e-5)

    def test_the_end_learns_from_the_reward_and_what_follows_it_does_not(self) -> None:
        objective = made("scst-greedy", Vocabulary(["a", "b"]), CORPUS, xe_weight=0.0)
        words = torch.tensor([[[1, 4, 2, 0, 0], [1, 4, 5, 4, 2]]])  # <bos> a <eos>, and <bos> a b a <eos>
        logits = torch.randn(1, 2, 4, 6, requires_grad=True)
        batch = self.scored(objective, words, torch.tensor([[2.0, 1.0]]), torch.tensor([0.5]))
        objective.batch_loss(logits, batch).backward()
        learns = logits.grad.abs().sum(-1)[0] > 0
        assert learns.tolist() == [[True, True, False, False], [True] * 4]

    @pytest.mark.parametrize("name", [*SELF_CRITICAL, "beam-reward"])
    def test_what_is_drawn_keeps_to_the_search(self, first: Path, tiny_data: Path, name: str) -> None:
        model, dataset = hoca.load(first).model, FolderDataset(tiny_data)
        objective = made(name, model.vocabulary, captions_of(dataset), no_repeat=1, max_length=4, samples=3)
        batch = whole_split(dataset, model.vocabulary)
        examples = objective.examples(model, batch)
        drawn = examples.words[:, : objective.own(examples)]
        assert drawn.shape[:2] == (len(batch), 3)
        sentences = [model.vocabulary.decode(words).split() for words in drawn.flatten(0, 1)]
        assert all(len(set(words)) == len(words) <= 4 for words in sentences)

    def test_breaking_off_earns_less_than_ending(self) -> None:
        references = {1: [[5, 6, 7, 2]], 2: [[8, 9, 2]]}
        reward = CiderReward(references)
        ended, broken = reward([1, 1], np.array([[5, 6, 7, 2], [5, 6, 7, -1]]))
        assert ended > broken

    def test_the_end_of_a_sentence_is_a_word_of_the_reward(self, first: Path, tiny_data: Path) -> None:
        """The loss by hand: CIDEr-D of the beam's sentences with `end` after every caption, weighed by p(sentence)."""
        captioner, dataset = hoca.load(first), FolderDataset(tiny_data)
        model = captioner.model
        objective = made("beam-reward", model.vocabulary, captions_of(dataset), **REWARD)
        batch = whole_split(dataset, model.vocabulary)
        found = replace(captioner.search, beam=4)(model, model.encode(batch.features, batch.lengths))
        ended = {id: [f"{caption} end" for caption in captions] for id, captions in captions_of(dataset).items()}
        evaluator, rewards = Evaluator(ended), []
        for place in range(4):
            texts = {id: f"{of[place]} end" for id, of in zip(batch.ids, found.texts(model.vocabulary), strict=True)}
            scores = evaluator.evaluate(texts, ("CIDEr",)).per_video
            rewards.append([scores[id]["CIDEr"] for id in batch.ids])
        earned = (found.logprob.softmax(1) * torch.tensor(rewards).T).sum(1).mean()
        assert step_losses(model, objective, batch)[WORDS] == pytest.approx(
            -float(earned) * batch.caption_count, rel=1e-4
        )

    def test_the_likelihood_takes_part(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        changes = {"objective": "scst-loo", "samples": 2, "dropout": 0.0, "epochs": 1, "learning_rate": 0.0}
        alone, both = (
            train(tiny(tiny_data, tmp_path / f"run-{weight}", init_from=str(first), xe_weight=weight, **changes))
            for weight in (0.0, 1.0)
        )
        assert column(both, "loss")[0] > column(alone, "loss")[0] + 1


def step_losses(model: CaptionModel, objective: Objective, batch: Batch) -> dict[str, float]:
    """All losses of a batch by name, summed over its captions."""
    found = TeacherForcing(model, objective)(objective.examples(model, batch))
    return {name: float(each.loss.detach()) for name, each in found.items()}


class TestLossesOfTheModel:
    def test_they_are_logged_by_name(self, tiny_data: Path, tmp_path: Path) -> None:
        accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        run = train(tiny(tiny_data, tmp_path / "run", model="recnet-global", dropout=0.0))
        assert list(rows(run)[0])[2:5] == ["loss", "words", "reconstruction"]
        parts = zip(column(run, "words"), column(run, "reconstruction"), strict=True)
        assert column(run, "loss") == pytest.approx([words + 0.2 * other for words, other in parts], rel=1e-5)
        assert all(value > 0 for value in column(run, "reconstruction"))
        events = accumulator.EventAccumulator(str(run / "events")).Reload()
        for name in ("loss", "words", "reconstruction"):
            assert [event.value for event in events.Scalars(name)] == pytest.approx(column(run, name)), name

    def test_a_model_without_any_logs_the_loss_alone(self, tiny_data: Path, tmp_path: Path) -> None:
        run = train(tiny(tiny_data, tmp_path / "run", model="sa-lstm", epochs=1))
        assert list(rows(run)[0]) == ["epoch", "step", "loss", "CIDEr", "learning_rate"]

    def test_they_are_about_the_given_captions_not_the_drawn_ones(self, tiny_data: Path, tmp_path: Path) -> None:
        run = train(tiny(tiny_data, tmp_path / "run", model="recnet-global", epochs=1))
        model, dataset = hoca.load(run).model, FolderDataset(tiny_data)
        batch = whole_split(dataset, model.vocabulary)
        given, rewarded = (
            step_losses(model, made(name, model.vocabulary, captions_of(dataset)), batch) for name in ("xe", "scst-loo")
        )
        assert rewarded["reconstruction"] == pytest.approx(given["reconstruction"], rel=1e-5)
        assert rewarded[WORDS] != given[WORDS]
