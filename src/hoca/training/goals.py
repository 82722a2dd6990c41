"""Rewards for captioners with goals: a worker learns word by word, a manager segment by segment (Wang et al., 2018).

f(a_t) is the CIDEr-D that word t adds to the caption so far. A worker's return is Σ_k γ^k f(a_{t+k}); a segment earns
what its words do, and a manager's return is Σ_k γ^k f(e_{n+k}) over the segments. What a linear baseline expects of the
state is taken off. The other of the two is to be frozen: `train.parts: [worker]` or `[manager]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from hoca.data import Batch
from hoca.errors import UserError
from hoca.generation import greedy, inference, sample
from hoca.models import CaptionModel
from hoca.training.objectives import REWARDS, RewardObjective, register_objective, word_losses

ADVANTAGES = "advantages"  # of each word of the model's own captions, among the targets of a batch


@runtime_checkable
class HasGoals(Protocol):
    """A captioner whose `roll` tells, for each word, `hidden`, `manager` and `opened`: was a goal set before it?"""

    has_goals: bool
    worker_baseline: Any
    manager_baseline: Any

    def roll(self, memory: Any, words: Tensor, state: Any) -> tuple[Any, Any]: ...


class GoalObjective(RewardObjective):
    """Each word of the model's own captions has an advantage of its own."""

    other: str  # the part that is to be frozen

    def examples(self, model: CaptionModel, batch: Batch) -> Batch:
        """The model's own captions [B, S, L + 1], then the given ones; advantages [B, S, L] are a target."""
        if not isinstance(model, HasGoals):
            raise UserError(f"train.objective={self.settings.objective} trains captioners with goals: use model=hrl")
        if any(parameter.requires_grad for parameter in getattr(model, self.other).parameters()):
            raise UserError(
                f"train.objective={self.settings.objective} would train the {self.other}, too: give "
                f"train.parts=[{self.settings.objective.removeprefix('hrl-')}]"
            )
        if self.settings.meteor_weight:
            raise UserError(
                f"train.objective={self.settings.objective} needs to know what each word adds to the reward, which "
                f"METEOR does not say: leave out meteor_weight"
            )
        with inference(model):
            memory = model.encode(batch.features, batch.lengths, batch.category)
            own = self.draw(model, memory)  # [B, S, L + 1]
            rolled, _ = model.roll(memory, own[:, :, :-1], model.begin(memory, own.shape[1]))
            gains = self.gains(batch.ids, own)
            chosen = own[:, :, 1:] != self.vocabulary.pad
            chosen[:, :, self.search.limits.max_length :] = False  # an <eos> that is forced
            advantages = self.advantages(model, rolled, gains, chosen)
        longest = max(own.shape[2], batch.words.shape[2])
        words = torch.cat([self._padded(part, longest) for part in (own, batch.words)], dim=1)
        targets = {REWARDS: gains.sum(-1), ADVANTAGES: F.pad(advantages, (0, longest - own.shape[2]))}
        return replace(batch, words=words, targets=batch.targets | targets)

    def batch_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        samples, targets = self.own(batch), batch.words[:, :, 1:]
        own = word_losses(logits[:, :samples].float(), targets[:, :samples], self.vocabulary.pad)  # [B, S, L]
        earned = -(batch.targets[ADVANTAGES] * own).sum(-1).mean()
        given = self.loss(logits[:, samples:], targets[:, samples:])
        return self.settings.xe_weight * given - earned * batch.caption_count

    def draw(self, model: CaptionModel, memory: Any) -> Tensor:
        raise NotImplementedError

    def advantages(self, model: HasGoals, rolled: Any, gains: Tensor, chosen: Tensor) -> Tensor:
        """gains and chosen [B, S, L] → what each word earned above what was to be expected, 0 where none was chosen."""
        raise NotImplementedError

    def gains(self, ids: Sequence[str], own: Tensor) -> Tensor:
        """f(a_t): the CIDEr-D that each word adds, [B, S, L]; their sum is the reward of the caption."""
        said = own[:, :, 1:] != self.vocabulary.pad  # [B, S, L]
        places = torch.arange(own.shape[2], device=own.device)
        beginnings = own[:, :, None].where(places <= places[1:, None], self.vocabulary.pad)  # [B, S, L, L + 1]
        owners = said.nonzero()[:, 0].tolist()
        scores = self.reward([ids[owner] for owner in owners], beginnings[said].cpu().numpy())
        found = torch.zeros(said.shape, device=own.device)
        found[said] = torch.from_numpy(scores).float().to(own.device)
        return found.diff(dim=-1, prepend=found.new_zeros(*found.shape[:2], 1)) * said

    def _padded(self, words: Tensor, longest: int) -> Tensor:
        return F.pad(words, (0, longest - words.shape[2]), value=self.vocabulary.pad)


@register_objective("hrl-worker")
class WorkerObjective(GoalObjective):
    """Captions are drawn by chance, and each word answers for what follows it."""

    other = "manager"

    def draw(self, model: CaptionModel, memory: Any) -> Tensor:
        return sample(model, memory, self.search.limits, count=self.settings.samples).words

    def advantages(self, model: Any, rolled: Any, gains: Tensor, chosen: Tensor) -> Tensor:
        returns = discounted(gains, model.config.discount)
        expected = model.worker_baseline(rolled.hidden).to(returns.dtype)
        model.worker_baseline.fit(rolled.hidden, returns, chosen)
        return (returns - expected) * chosen


@register_objective("hrl-manager")
class ManagerObjective(GoalObjective):
    """Captions are the likeliest, and a goal answers for its segment and those that follow it.

    In training, noise on the goals (`model.goal_noise`) shows which way they should have been.
    """

    other = "worker"

    def draw(self, model: CaptionModel, memory: Any) -> Tensor:
        return greedy(model, memory, self.search.limits).words

    def advantages(self, model: Any, rolled: Any, gains: Tensor, chosen: Tensor) -> Tensor:
        segment = rolled.opened.long().cumsum(-1) - 1  # [B, S, L], the number of each word's segment
        earned = torch.zeros_like(gains).scatter_add(2, segment, gains)  # [B, S, segments]
        returns = discounted(earned, model.config.discount).gather(2, segment)
        expected = model.manager_baseline(rolled.manager).to(returns.dtype)
        first = rolled.opened & chosen
        model.manager_baseline.fit(rolled.manager, returns, first)
        # A segment has one baseline: that of the state which set its goal.
        at_first = torch.zeros_like(expected).scatter_add(2, segment, expected * rolled.opened)
        return (returns - at_first.gather(2, segment)) * chosen


def discounted(gains: Tensor, discount: float) -> Tensor:
    """Σ_k γ^k gains_{t+k}, along the last dimension."""
    total = torch.zeros_like(gains[..., 0])
    found = []
    for gain in reversed(gains.unbind(-1)):
        total = gain + discount * total
        found.append(total)
    return torch.stack(found[::-1], dim=-1)
