"""Self-critical training: captions that the model draws are made likelier the more CIDEr-D they earn.

The baseline of a drawn caption is the mean reward of the others drawn for the same video. The end of a sentence counts
as a word of the reward, so that breaking off early earns nothing. A share of the likelihood (eq. 24) keeps the
language that the reward does not see.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.data import Batch, Vocabulary
from hoca.data.corpus import Video
from hoca.generation import Limits, sample
from hoca.generation.step import inference
from hoca.metrics.reward import CiderReward
from hoca.models import Captioner
from hoca.training.objective import caption_loss
from hoca.training.recipe import Recipe


class RewardObjective:
    def __init__(self, recipe: Recipe, videos: Sequence[Video], vocabulary: Vocabulary) -> None:
        self.recipe, self.vocabulary = recipe, vocabulary
        references = {video.id: [vocabulary.encode(caption) for caption in video.captions] for video in videos}
        self.reward = CiderReward(references, ignored=(vocabulary.pad, vocabulary.bos))
        self.limits = Limits(max_length=recipe.max_length)

    def __call__(self, model: Captioner, wrapped: nn.Module, batch: Batch) -> Tensor:
        """The loss times the batch's captions, as `caption_loss` gives it."""
        pad, drawn = self.vocabulary.pad, self._draw(model, batch)  # [B, S, L + 1]
        advantage = self._advantage(batch, drawn).to(drawn.device)  # [B, S]
        longest = max(drawn.shape[2], batch.words.shape[2])
        words = torch.cat([_padded(part, longest, pad) for part in (drawn, batch.words)], dim=1)
        logits = wrapped(batch.features, batch.lengths, words[:, :, :-1], batch.category)  # [B, S + R, L, V]
        samples, targets = drawn.shape[1], words[:, : drawn.shape[1], 1:]
        logprob = -F.cross_entropy(
            logits[:, :samples].flatten(0, 2).float(), targets.flatten(), ignore_index=pad, reduction="none"
        )
        earned = (advantage * logprob.view_as(targets).sum(-1)).mean()
        likelihood = caption_loss(logits[:, samples:], words[:, samples:], pad, self.recipe.label_smoothing)
        return self.recipe.likelihood * likelihood - earned * batch.caption_count

    def _draw(self, model: Captioner, batch: Batch) -> Tensor:
        with inference(model):
            memory = model.encode(batch.features, batch.lengths, batch.category)
            return sample(model, memory, self.limits, count=self.recipe.samples).words

    def _advantage(self, batch: Batch, drawn: Tensor) -> Tensor:
        """How much better each caption is than the others of its video, [B, S]."""
        videos, samples = drawn.shape[:2]
        owners = [id for id in batch.ids for _ in range(samples)]
        rewards = torch.from_numpy(self.reward(owners, drawn.flatten(0, 1).cpu().numpy())).float().view(videos, samples)
        others = (rewards.sum(1, keepdim=True) - rewards) / (samples - 1)
        return rewards - others


def _padded(words: Tensor, length: int, pad: int) -> Tensor:
    return F.pad(words, (0, length - words.shape[2]), value=pad)
