"""Rewards of words and of segments, and who learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hoca.data import Batches, FolderDataset
from hoca.errors import UserError
from hoca.models import create
from hoca.text import Vocabulary
from hoca.training import train
from hoca.training.build import freeze
from hoca.training.goals import ADVANTAGES, discounted
from hoca.training.objectives import OBJECTIVES, REWARDS, TeacherForcing

from .tiny import tiny

SIZES = {"hidden": 8, "attention": 8, "embedding": 8, "worker_hidden": 8, "manager_hidden": 8, "critic_hidden": 8}
both = pytest.mark.parametrize("name", ["hrl-worker", "hrl-manager"])


class Setting:
    """A model, an objective and a batch of the tiny dataset."""

    def __init__(self, data: Path, name: str, discount: float = 0.95, **changes: Any) -> None:
        torch.manual_seed(0)
        dataset = FolderDataset(data)
        captions = {video.id: video.captions for video in dataset.videos("train")}
        self.vocabulary = Vocabulary.build(caption for each in captions.values() for caption in each)
        recipe = tiny(data, Path("nowhere"), objective=name, **{"samples": 3, **changes})
        self.objective: Any = OBJECTIVES[name](recipe.train, recipe.search, self.vocabulary, captions)
        options = {**SIZES, "max_steps": 20, "dropout": 0.0, "discount": discount}
        self.model: Any = create("hrl", dataset.widths, self.vocabulary, **options)
        freeze(self.model, (name.removeprefix("hrl-"),) if name.startswith("hrl-") else ())
        (self.batch,) = Batches(dataset, "train", self.vocabulary, batch_size=1000)

    def rolled(self, words: Tensor) -> Any:
        memory = self.model.encode(self.batch.features, self.batch.lengths)
        return self.model.roll(memory, words, self.model.begin(memory, words.shape[1]))[0]

    def captions(self) -> Tensor:
        """For each video: the beginning of a caption of its own, and one of another's."""
        return torch.cat([self.batch.words[:, :1], self.batch.words.roll(1, 0)[:, :1]], dim=1)


def test_the_gains_of_the_words_add_up_to_the_reward_of_each_beginning(tiny_data: Path) -> None:
    of = Setting(tiny_data, "hrl-worker")
    own = of.captions()
    gains = of.objective.gains(of.batch.ids, own)
    torch.testing.assert_close(gains.sum(-1), of.objective.rewards(of.batch.ids, own))
    for length in (1, 3):
        cut = own.clone()
        cut[:, :, length + 1 :] = of.vocabulary.pad
        torch.testing.assert_close(gains[:, :, :length].sum(-1), of.objective.rewards(of.batch.ids, cut))
    assert float(gains[own[:, :, 1:] == of.vocabulary.pad].abs().max()) == 0


def test_without_discount_the_first_return_is_the_reward_and_returns_telescope() -> None:
    gains = torch.randn(2, 3, 5).double()
    returns = discounted(gains, 1.0)
    torch.testing.assert_close(returns[..., 0], gains.sum(-1))
    torch.testing.assert_close(returns[..., :-1] - returns[..., 1:], gains[..., :-1])
    nearer = discounted(gains, 0.5)
    torch.testing.assert_close(nearer[..., 2], gains[..., 2] + 0.5 * gains[..., 3] + 0.25 * gains[..., 4])


def test_a_word_answers_for_what_follows_it_and_a_segment_for_its_words(tiny_data: Path) -> None:
    """Before the baselines have learned anything, advantages are the returns."""
    for name in ("hrl-worker", "hrl-manager"):
        of = Setting(tiny_data, name, discount=0.9)
        of.model.critic.output.weight.data.mul_(20)  # so that some segments end, and others do not
        own = of.captions()
        gains, rolled, said = of.objective.gains(of.batch.ids, own), of.rolled(own[:, :, :-1]), own[:, :, 1:] != 0
        found = of.objective.advantages(of.model.eval(), rolled, gains, said)
        assert 1 < int(rolled.opened[said].sum()) < int(said.sum())
        for row in range(len(own)):
            earned, opened = gains[row, 1].tolist(), rolled.opened[row, 1].tolist()
            length = int(said[row, 1].sum())
            if name == "hrl-worker":
                expected = [sum(0.9**k * g for k, g in enumerate(earned[t:length])) for t in range(length)]
            else:
                expected = by_segment(earned[:length], opened[:length], 0.9)
            assert found[row, 1, :length].tolist() == pytest.approx(expected, abs=1e-5)
            assert found[row, 1, length:].abs().sum() == 0


def by_segment(earned: Sequence[float], opened: Sequence[bool], discount: float) -> list[float]:
    segments: list[list[float]] = []
    for gain, new in zip(earned, opened, strict=True):
        if new:
            segments.append([])
        segments[-1].append(gain)
    assert sum(map(sum, segments)) == pytest.approx(sum(earned))
    values = [sum(discount**k * sum(later) for k, later in enumerate(segments[n:])) for n in range(len(segments))]
    return [value for value, segment in zip(values, segments, strict=True) for _ in segment]


@both
def test_what_was_expected_is_taken_off(tiny_data: Path, name: str) -> None:
    of = Setting(tiny_data, name)
    left = []
    for _ in range(11):
        torch.manual_seed(1)
        left.append(float(of.objective.examples(of.model, of.batch).targets[ADVANTAGES].square().sum()))
    assert left[-1] < 0.95 * left[0]


@both
def test_an_end_that_the_longest_length_forced_earns_nothing(tiny_data: Path, name: str) -> None:
    of = Setting(tiny_data, name)
    of.objective.search = replace(of.objective.search, max_length=2)
    with torch.no_grad():  # nobody ends a sentence who may go on
        of.model.worker.output.bias[of.vocabulary.eos] = -20.0
    batch = of.objective.examples(of.model, of.batch)
    own = batch.words[:, : of.objective.own(batch), 1:]
    assert (own[:, :, 2] == of.vocabulary.eos).all()
    advantages = batch.targets[ADVANTAGES]
    assert advantages[:, :, :2].any()
    assert not advantages[:, :, 2:].any()


@both
def test_the_one_that_learns_leaves_the_other_and_the_critic_alone(tiny_data: Path, name: str) -> None:
    of = Setting(tiny_data, name, xe_weight=0.0)
    batch = of.objective.examples(of.model, of.batch)
    losses = TeacherForcing(of.model, of.objective)(batch)
    losses["words"].loss.backward()
    moved = {key.split(".")[0] for key, p in of.model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert moved == {name.removeprefix("hrl-")}


@both
def test_the_other_is_to_be_frozen(tiny_data: Path, tmp_path: Path, name: str) -> None:
    """The loss of either reaches both: a goal is in the worker's words, and its state in the goal."""
    own = name.removeprefix("hrl-")
    with pytest.raises(UserError, match=rf"would train the \w+, too: give train.parts=\[{own}\]"):
        train(tiny(tiny_data, tmp_path / "run", model="hrl", objective=name))


@both
def test_the_loss_is_minus_the_advantages_times_the_log_probabilities(tiny_data: Path, name: str) -> None:
    of = Setting(tiny_data, name, xe_weight=0.0)
    batch = of.objective.examples(of.model, of.batch)
    samples = 3 if name == "hrl-worker" else 1
    assert batch.targets[REWARDS].shape == (len(batch), samples)
    logits = of.model(batch.features, batch.lengths, batch.words[:, :, :-1])
    logprob = logits.log_softmax(-1).gather(3, batch.words[:, :, 1:, None]).squeeze(3)[:, :samples]
    each = (batch.targets[ADVANTAGES] * logprob).sum(-1).mean() * batch.caption_count
    torch.testing.assert_close(of.objective.batch_loss(logits, batch), -each)


def test_captions_of_the_worker_come_to_earn_more(tiny_data: Path) -> None:
    of, plain = Setting(tiny_data, "hrl-worker", xe_weight=0.0), Setting(tiny_data, "xe").objective
    optimizer = torch.optim.Adam(of.model.requires_grad_(True).parameters(), lr=0.02)
    for _ in range(40):
        step(optimizer, TeacherForcing(of.model, plain)(of.batch)["words"].loss / of.batch.caption_count)
    freeze(of.model, ("worker",))
    optimizer, earned = torch.optim.Adam(of.model.worker.parameters(), lr=0.01), []
    for _ in range(25):
        batch = of.objective.examples(of.model, of.batch)
        earned.append(float(batch.targets[REWARDS].mean()))
        step(optimizer, TeacherForcing(of.model, of.objective)(batch)["words"].loss / batch.caption_count)
    assert sum(earned[-5:]) > 1.1 * sum(earned[:5])


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@both
def test_a_captioner_without_goals_is_refused(tiny_data: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"train.objective={name} trains captioners with goals: use model=hrl"):
        train(tiny(tiny_data, tmp_path / "run", model="sa-lstm", objective=name))


@both
def test_a_reward_that_words_cannot_be_told_apart_by_is_refused(tiny_data: Path, name: str) -> None:
    of = Setting(tiny_data, name, meteor_weight=1.0)
    for parameter in getattr(of.model, of.objective.other).parameters():
        parameter.requires_grad = False
    with pytest.raises(UserError, match="leave out meteor_weight"):
        of.objective.examples(of.model, of.batch)
