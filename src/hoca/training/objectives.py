"""What training minimises: the losses of the words (eq. 24 and its relatives), and a model's own beside them.

Every kind of step, plain or in fixed shapes, takes its loss from here. A word objective is a class that is registered
by name and works with every captioner; it says which captions are scored, and what their words' losses add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.data import Batch
from hoca.generation import Search, inference
from hoca.generation.beam import BeamSearch
from hoca.generation.rollout import Rollout, seeded
from hoca.generation.step import WordByWord
from hoca.metrics import CiderReward, MeteorReward
from hoca.models import CaptionModel, Decoded, Memory, Weighted
from hoca.models.trees import tensors
from hoca.ops.cross_entropy import cross_entropy
from hoca.text import Vocabulary, tokenize
from hoca.training.recipe import TrainSection

WORDS = "words"  # the name of the word objective among a step's losses
REWARDS = "rewards"  # of the model's own captions, among the targets of a batch
OBJECTIVES: dict[str, type[Objective]] = {}
Kind = TypeVar("Kind", bound="type[Objective]")
Run = Callable[[WordByWord, CaptionModel, Memory], Any]  # all words of a search


def register_objective(name: str) -> Callable[[Kind], Kind]:
    def add(kind: Kind) -> Kind:
        OBJECTIVES[name] = kind
        return kind

    return add


def word_losses(logits: Tensor, targets: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """-log p of each word (eq. 24): logits [..., V], targets [...] → [...], 0 where there is no word."""
    return cross_entropy(logits.flatten(0, -2), targets.flatten(), pad, smoothing).view_as(targets)


class Objective:
    """Of the captions of a batch; `references` are the captions of each training video."""

    def __init__(
        self,
        settings: TrainSection,
        search: Search,
        vocabulary: Vocabulary,
        references: Mapping[str, Sequence[str]],
    ) -> None:
        self.settings, self.search, self.vocabulary, self.references = settings, search, vocabulary, references

    @property
    def fixed_shapes(self) -> bool:
        """Whether the loss is a sum over the words of `examples`, weighted by caption, that `loss` gives."""
        return True

    def caption_weights(self) -> Mapping[str, Sequence[float]] | None:
        """What each caption of each training video counts; None: the same."""
        return None

    def examples(self, model: CaptionModel, batch: Batch) -> Batch:
        """The captions to be scored for a batch, which is where `batch.words` are."""
        return batch

    def own(self, batch: Batch) -> int:
        """How many captions of each video in `examples`, the first ones, are the model's own."""
        return 0

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """logits [..., V], any more of which are -inf, targets [...], weights [...] of the words → their loss, summed.

        The caller divides by the captions of the global batch, so that the loss is a mean over captions.
        """
        if self.settings.label_smoothing:
            logits = logits[..., : len(self.vocabulary)]
        losses = word_losses(logits, targets, self.vocabulary.pad, self.settings.label_smoothing)
        return losses.sum() if weights is None else (weights * losses).sum()

    def batch_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """logits [B, R, L, V] of `examples` → their loss, summed."""
        weights = None if batch.weights is None else batch.weights[..., None]  # [B, R, 1]
        return self.loss(logits, batch.words[:, :, 1:], weights)


@register_objective("xe")
class CrossEntropy(Objective):
    """eq. 24."""


@register_objective("wxe")
class WeightedCrossEntropy(Objective):
    """A caption counts the more, the more CIDEr-D it has against the others of its video (Phan et al., 2017).

    The weights are scaled to a mean of 1, so that a learning rate means what it does with `xe`.
    """

    def caption_weights(self) -> Mapping[str, Sequence[float]]:
        consensus = reward_of(self.references, self.vocabulary).of_references()
        mean = mean_consensus(consensus)
        return {
            id: [weight / mean for weight in weights] if mean and len(weights) > 1 else [1.0] * len(weights)
            for id, weights in consensus.items()
        }


class RewardObjective(Objective):
    """Captions of the model's own are made likelier the more CIDEr-D they earn, beside a share of eq. 24.

    Settings add ROUGE-L and METEOR to what is earned.

    The end of a sentence counts as a word of the reward, so that breaking off early earns nothing. The share of eq. 24
    keeps the language that the reward does not see.
    """

    @property
    def fixed_shapes(self) -> bool:
        return False

    @cached_property
    def reward(self) -> CiderReward:
        return reward_of(self.references, self.vocabulary, self.settings.rouge_weight)

    @cached_property
    def meteor(self) -> MeteorReward:
        return MeteorReward(self.references)

    def examples(self, model: CaptionModel, batch: Batch) -> Batch:
        with inference(model):
            memory = model.encode(batch.features, batch.lengths, batch.category)
            return self.with_own(model, memory, batch, WordByWord.run)[1]()

    def with_own(
        self, model: CaptionModel, memory: Memory, batch: Batch, run: Run
    ) -> tuple[Batch, Callable[[], Batch]]:
        """The batch with captions of the model's own, found by `run`; `memory` may hold more videos, after its own.

        At first without rewards, which the host computes when the second result is called.
        """

        def said(search: WordByWord) -> Tensor:
            """Words [B, W, L + 1] on the host, nothing but <pad> where a beam found fewer sentences than it may."""
            found = run(search, model, memory)
            empty = found.total[: len(batch), :, None].isinf()
            words = found.words[: len(batch)].masked_fill(empty, self.vocabulary.pad).cpu()
            return words[:, :, : int((words != self.vocabulary.pad).sum(-1).max())]

        own = said(self.search_own(tensors(memory)[0].device))
        other = self.search_baseline()
        compared = None if other is None else said(other)

        def scored() -> Batch:
            return self.scored(batch, own, self.rewards(batch.ids, own), self.baseline(batch.ids, compared))

        return self.scored(batch, own, torch.zeros(own.shape[:2]), None), scored

    def scored(self, batch: Batch, own: Tensor, rewards: Tensor, baseline: Tensor | None) -> Batch:
        """The model's own captions [B, S, L + 1], then the given ones; the rewards [B, S] are a target."""
        longest = max(own.shape[2], batch.words.shape[2])
        both = (own.to(batch.words.device), batch.words)
        padded = [F.pad(part, (0, longest - part.shape[2]), value=self.vocabulary.pad) for part in both]
        targets = batch.targets | {REWARDS: rewards.to(batch.words.device)}
        return replace(batch, words=torch.cat(padded, dim=1), targets=targets)

    def own(self, batch: Batch) -> int:
        return batch.targets[REWARDS].shape[1]

    def losses_of_both(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """-log p of the words of the model's own captions, [B, S, L], and of the given ones, [B, R, L].

        Label smoothing is for the given ones alone. Without it a single pass reads the scores where they are.
        """
        own, targets, smoothing = self.own(batch), batch.words[:, :, 1:], self.settings.label_smoothing
        if not smoothing:
            losses = word_losses(logits, targets, self.vocabulary.pad)
            return losses[:, :own], losses[:, own:]
        said = logits[..., : len(self.vocabulary)]
        return (
            word_losses(said[:, :own], targets[:, :own], self.vocabulary.pad),
            word_losses(said[:, own:], targets[:, own:], self.vocabulary.pad, smoothing),
        )

    def search_own(self, device: torch.device) -> WordByWord:
        """What finds the captions that are rewarded."""
        raise NotImplementedError

    def search_baseline(self) -> WordByWord | None:
        """What finds the captions that the model's own are compared with, where they are compared with such."""
        return None

    def baseline(self, ids: Sequence[str], compared: Tensor | None) -> Tensor | None:
        """What is taken off the rewards of each video, [B]; None: nothing. compared: what `search_baseline` found."""
        return None

    def rewards(self, ids: Sequence[str], own: Tensor) -> Tensor:
        """Of each caption, [B, S]; own [B, S, L + 1] is on the host."""
        owners, rows = [id for id in ids for _ in range(own.shape[1])], own.flatten(0, 1)
        earned = self.reward(owners, rows.numpy())
        if self.settings.meteor_weight:
            earned += self.settings.meteor_weight * self.meteor(owners, [*map(self.vocabulary.decode, rows.tolist())])
        return torch.from_numpy(earned).float().view(own.shape[:2])


class SelfCritical(RewardObjective):
    """Captions are drawn by chance: those that earn more than a baseline become likelier, those that earn less rarer.

    It raises what greedy search finds, and lowers what a beam does: likely sentences become safe ones. What a caption
    earned is known before the model learns from it: the loss is a sum over words, weighted by caption. A word's log p
    is among all words, <unk> and others that the search never says included. An <eos> at the search's longest length is
    forced: nothing is learned from it.
    """

    @property
    def fixed_shapes(self) -> bool:
        return not self.settings.label_smoothing  # which is for the given captions alone

    def search_own(self, device: torch.device) -> WordByWord:
        return Rollout(self.search.limits, self.settings.samples, temperature=1.0, generator=seeded(device))

    def advantages(self, rewards: Tensor, baseline: Tensor | None) -> Tensor:
        """What each caption earned above the baseline, [B, S]."""
        return rewards if baseline is None else rewards - baseline[:, None]

    def scored(self, batch: Batch, own: Tensor, rewards: Tensor, baseline: Tensor | None) -> Batch:
        """The mean advantage of a video's captions counts as much as one given caption of `xe_weight` 1."""
        own = own[:, :, : self.search.limits.max_length + 1]  # without a forced <eos>
        earned = self.advantages(rewards, baseline) * batch.caption_count / max(1, rewards.numel())
        weights = F.pad(earned, (0, batch.words.shape[1]), value=self.settings.xe_weight)
        return replace(super().scored(batch, own, rewards, baseline), weights=weights.to(batch.words.device))

    def batch_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        assert batch.weights is not None
        drawn, given = self.losses_of_both(logits, batch)
        own, weights = self.own(batch), batch.weights[..., None]  # [B, S + R, 1]
        return (weights[:, :own] * drawn).sum() + (weights[:, own:] * given).sum()


@register_objective("scst-loo")
class LeaveOneOut(SelfCritical):
    """The baseline of a caption is the mean reward of the video's others."""

    def advantages(self, rewards: Tensor, baseline: Tensor | None) -> Tensor:
        return rewards - (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)


@register_objective("scst-greedy")
class Greedy(SelfCritical):
    """The baseline is the reward of what greedy search says, without dropout (Rennie et al., 2017)."""

    def search_baseline(self) -> WordByWord:
        return Rollout(self.search.limits)

    def baseline(self, ids: Sequence[str], compared: Tensor | None) -> Tensor:
        assert compared is not None
        return self.rewards(ids, compared)[:, 0]


@register_objective("scst-consensus")
class Consensus(SelfCritical):
    """The baseline is what the video's captions earn, each against the others, on average (Phan et al., 2017).

    CIDEr-D alone, whatever else is rewarded. A video's only caption has no others: the baseline is then that of the
    mean video.
    """

    @cached_property
    def consensus(self) -> Mapping[str, float]:
        found = self.reward.of_references()
        mean = mean_consensus(found)
        return {id: sum(scores) / len(scores) if len(scores) > 1 else mean for id, scores in found.items()}

    def baseline(self, ids: Sequence[str], compared: Tensor | None) -> Tensor:
        return torch.tensor([self.consensus[id] for id in ids])


@register_objective("beam-reward")
class BeamReward(RewardObjective):
    """The reward that is expected of the sentences that beam search chooses among, weighed by their probabilities.

    The search learns to prefer the better ones. An <eos> that the longest length forces counts as any other word: the
    search ranks by it too.
    """

    def search_own(self, device: torch.device) -> WordByWord:
        return BeamSearch(self.search.limits, self.settings.samples, self.search.length_penalty)

    def earned(self, logprob: Tensor, rewards: Tensor) -> Tensor:
        """Log-probabilities and rewards [B, S] → what is expected of each video's captions, [B]."""
        return (logprob.softmax(1) * rewards).sum(1)

    def batch_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        own, given = self.losses_of_both(logits, batch)
        empty = (batch.words[:, : own.shape[1], 1:] == self.vocabulary.pad).all(-1)
        earned = self.earned((-own.sum(-1)).masked_fill(empty, float("-inf")), batch.targets[REWARDS]).mean()
        return self.settings.xe_weight * given.sum() - earned * batch.caption_count


def reward_of(
    references: Mapping[str, Sequence[str]], vocabulary: Vocabulary, rouge_weight: float = 0.0
) -> CiderReward:
    """<eos> counts as a word, and a word outside the vocabulary as itself: two of these are no agreement.

    Document frequencies are in no checkpoint: a resumed run counts its references again.
    """
    outside: dict[str, int] = {}

    def numbered(caption: str) -> list[int]:
        words = [
            vocabulary[word] if word in vocabulary else outside.setdefault(word, len(vocabulary) + len(outside))
            for word in tokenize(caption)
        ]
        return [*words, vocabulary.eos]

    encoded = {id: [numbered(caption) for caption in captions] for id, captions in references.items()}
    return CiderReward(encoded, ignored=(vocabulary.pad, vocabulary.bos), rouge_weight=rouge_weight)


def mean_consensus(consensus: Mapping[str, Sequence[float]]) -> float:
    """The mean score of all captions that have others to agree with."""
    compared = [score for scores in consensus.values() if len(scores) > 1 for score in scores]
    return sum(compared) / max(len(compared), 1)


class TeacherForcing(nn.Module):
    """All losses of a batch by name, as one module: what several processes wrap."""

    def __init__(self, model: CaptionModel, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> dict[str, Weighted]:
        """The batch's captions are those that `Objective.examples` gave."""
        return self.losses(batch, *self.decoded(batch))

    def decoded(self, batch: Batch) -> tuple[Memory, Decoded]:
        """All that does not depend on what a caption counts."""
        memory = self.model.encode(batch.features, batch.lengths, batch.category)
        words = batch.words[:, :, :-1]
        return memory, self.model.decode(memory, words, self.model.begin(memory, words.shape[1]))

    def losses(self, batch: Batch, memory: Memory, decoded: Decoded) -> dict[str, Weighted]:
        losses = {WORDS: Weighted(1.0, self.objective.batch_loss(decoded.logits, batch))}
        if own := self.objective.own(batch):  # a model's own losses are about the given captions
            batch = replace(batch, words=batch.words[:, own:])
            decoded = Decoded(decoded.logits[:, own:], decoded.state, decoded.hidden[:, own:])
        return losses | self.model.losses(memory, batch, decoded)


def summed(losses: Mapping[str, Weighted]) -> Tensor:
    """What is minimised: the objective and Σ weight · auxiliary loss."""
    total, *others = [each.loss if each.weight == 1.0 else each.weight * each.loss for each in losses.values()]
    for other in others:
        total = total + other
    return total


def reported(losses: Mapping[str, Weighted]) -> dict[str, Tensor]:
    """The losses that are logged, without a graph: the sum, and its parts where there are several."""
    parts = {name: each.loss.detach() for name, each in losses.items()} if len(losses) > 1 else {}
    return {"loss": summed(losses).detach(), **parts}
