"""Fit a word detector: which words do captions have, given the mean of a video's features?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.data import FolderDataset
from hoca.models import ModelConfig
from hoca.models.parts.detector import Detector, means
from hoca.progress import track
from hoca.text import SPECIALS, Vocabulary

BATCH = 128  # videos
RATE, DECAY, DROPOUT = 1e-3, 1e-2, (0.3, 0.5)  # of AdamW; before either layer
LARGE = 2.0  # deviation of what the first layer sees: the larger, the faster it learns


def fit(
    config: ModelConfig, vocabulary: Vocabulary, parts: Sequence[tuple[FolderDataset, int]], seed: int = 0
) -> Detector:
    """A detector for `config.word_detector`, from the training videos of datasets, for so many epochs each, one by one.

    It learns the share of a video's captions that have a word, for every word at once. What it says is above the
    log-odds of the words in the last dataset, on which it should end: that of videos like those to be captioned.
    """
    torch.manual_seed(seed)
    examples = [_Examples(dataset, config, vocabulary) for dataset, _ in parts]
    detector = Detector(config, len(vocabulary))
    detector.mean.copy_(examples[0].features.nanmean(0))
    deviation = (examples[0].features - detector.mean).square().nanmean(0).sqrt()
    detector.scale.copy_(LARGE / deviation.clamp(min=1e-3))
    prior = examples[-1].log_odds()
    inner, outer = nn.Linear(*detector.inner.shape[::-1]), nn.Linear(*detector.outer.shape[::-1])
    with torch.no_grad():  # so that it says `prior` of every video in the beginning, or nearly
        outer.weight *= 0.1
        outer.bias.copy_(prior)
    layers = nn.Sequential(nn.Dropout(DROPOUT[0]), inner, nn.ReLU(), nn.Dropout(DROPOUT[1]), outer)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=RATE, weight_decay=DECAY)
    order = [of for of, (_, epochs) in zip(examples, parts, strict=True) for _ in range(epochs)]
    steps = sum(-(-len(of) // BATCH) for of in order)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    batches = ((of, rows) for of in order for rows in torch.randperm(len(of)).split(BATCH))
    for of, rows in track(batches, total=steps, what="word detector"):
        x = torch.nan_to_num((of.features[rows] - detector.mean) * detector.scale)
        target = of.shares(rows)
        loss = F.binary_cross_entropy_with_logits(layers(x), target, reduction="sum") / len(rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    found = {"inner": inner.weight, "inner_bias": inner.bias, "outer": outer.weight, "outer_bias": outer.bias - prior}
    for name, value in found.items():
        getattr(detector, name).copy_(value.detach())
    for name in ("outer", "outer_bias"):
        getattr(detector, name)[: len(SPECIALS)] = 0  # no evidence for what is no word
    return detector


class _Examples:
    """The means of the training videos' features [N, D], NaN where one is missing, and the words of their captions."""

    def __init__(self, dataset: FolderDataset, config: ModelConfig, vocabulary: Vocabulary) -> None:
        videos = dataset.videos("train")
        self.size = len(vocabulary)
        rows = []
        for video in videos:
            features, lengths = dataset.padded([video.id])
            rows.append(torch.cat([means(features[m], lengths[m])[0] for m in config.word_detector]).cpu())
        self.features = torch.stack(rows)
        self.words = [_shares(vocabulary, video.captions) for video in videos]

    def __len__(self) -> int:
        return len(self.words)

    def shares(self, rows: Tensor) -> Tensor:
        """[len(rows), V]: of each video's captions, how many have the word."""
        target = torch.zeros(len(rows), self.size)
        for row, index in zip(target, rows.tolist(), strict=True):
            ids, shares = self.words[index]
            row[ids] = shares
        return target

    def log_odds(self) -> Tensor:
        """[V]: of each word in any caption of the dataset."""
        total = torch.zeros(self.size)
        for ids, shares in self.words:
            total[ids] += shares
        return torch.logit(total / len(self), eps=1e-5)


def _shares(vocabulary: Vocabulary, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The ids of the words of some captions, and the share of the captions that has each."""
    found = torch.tensor([id for caption in captions for id in set(vocabulary.encode(caption))])
    ids, counts = found.unique(return_counts=True)
    return ids, counts / len(captions)
