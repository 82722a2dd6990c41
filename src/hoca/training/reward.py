"""Training for reward: captions of the model's own are made likelier the more CIDEr-D they earn.

`sampled` is self-critical: captions are drawn by chance, and the baseline of one is the mean reward of the others drawn
for the same video. It raises what greedy search finds, and lowers what a beam does: likely sentences become safe ones.
`beam` takes the sentences that beam search would choose among, and maximises the reward that is expected if they are
weighed by their probabilities: the search learns to prefer the better ones.

The end of a sentence counts as a word of the reward, so that breaking off early earns nothing. A share of the
likelihood (eq. 24) keeps the language that the reward does not see.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.data import Batch, Vocabulary
from hoca.data.corpus import Video
from hoca.generation import sample
from hoca.generation.beam import BeamSearch
from hoca.generation.step import inference
from hoca.metrics.reward import CiderReward
from hoca.models import Captioner
from hoca.training.evaluation import Search
from hoca.training.objective import caption_loss
from hoca.training.recipe import Recipe


class RewardObjective:
    def __init__(self, recipe: Recipe, videos: Sequence[Video], vocabulary: Vocabulary) -> None:
        self.recipe, self.vocabulary = recipe, vocabulary
        references = {video.id: [vocabulary.encode(caption) for caption in video.captions] for video in videos}
        self.reward = CiderReward(references, ignored=(vocabulary.pad, vocabulary.bos))
        self.limits = Search.of(recipe).limits

    def __call__(self, model: Captioner, wrapped: nn.Module, batch: Batch) -> Tensor:
        """The loss times the batch's captions, as `caption_loss` gives it."""
        pad, own = self.vocabulary.pad, self._draw(model, batch)  # [B, S, L + 1]
        rewards = self._rewards(batch, own).to(own.device)
        longest = max(own.shape[2], batch.words.shape[2])
        words = torch.cat([_padded(part, longest, pad) for part in (own, batch.words)], dim=1)
        logits = wrapped(batch.features, batch.lengths, words[:, :, :-1], batch.category)  # [B, S + R, L, V]
        samples, targets = own.shape[1], words[:, : own.shape[1], 1:]
        logprob = -F.cross_entropy(
            logits[:, :samples].flatten(0, 2).float(), targets.flatten(), ignore_index=pad, reduction="none"
        )
        earned = self._earned(logprob.view_as(targets).sum(-1), rewards).mean()
        likelihood = caption_loss(logits[:, samples:], words[:, samples:], pad, self.recipe.label_smoothing)
        return self.recipe.likelihood * likelihood - earned * batch.caption_count

    def _draw(self, model: Captioner, batch: Batch) -> Tensor:
        recipe = self.recipe
        with inference(model):
            memory = model.encode(batch.features, batch.lengths, batch.category)
            if recipe.drawn == "sampled":
                return sample(model, memory, self.limits, count=recipe.samples).words
            # `beam_search` would capture a graph per shape on a GPU, and training meets many shapes, each a few times.
            beams = BeamSearch(self.limits, recipe.samples, recipe.length_penalty).run(model, memory)
            return beams.words[:, :, : int(beams.said) + 1]

    def _rewards(self, batch: Batch, own: Tensor) -> Tensor:
        """CIDEr-D of each caption, [B, S]."""
        videos, samples = own.shape[:2]
        owners = [id for id in batch.ids for _ in range(samples)]
        return torch.from_numpy(self.reward(owners, own.flatten(0, 1).cpu().numpy())).float().view(videos, samples)

    def _earned(self, logprob: Tensor, rewards: Tensor) -> Tensor:
        """Log-probabilities and rewards [B, S] → what each video's captions earn, or what has its gradient, [B]."""
        if self.recipe.drawn == "beam":
            return (logprob.softmax(1) * rewards).sum(1)
        others = (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)
        return ((rewards - others) * logprob).mean(1)


def _padded(words: Tensor, length: int, pad: int) -> Tensor:
    return F.pad(words, (0, length - words.shape[2]), value=pad)
