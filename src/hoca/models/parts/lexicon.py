"""The words that captions have most to tell with, and which of them a video's captions have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hoca.text import Vocabulary, content_words


def video_counts(references: Sequence[Sequence[str]]) -> Counter[str]:
    """In how many videos each word is said, stop words left out; references are the captions of each video."""
    counts: Counter[str] = Counter()
    for captions in references:
        counts.update({word for caption in captions for word in content_words(caption)})
    return counts


def frequent_words(references: Sequence[Sequence[str]], count: int) -> list[str]:
    """The words that most videos' captions have, stop words left out; those of the same count from a to z."""
    ranked = sorted(video_counts(references).items(), key=lambda item: (-item[1], item[0]))
    return [word for word, _ in ranked[:count]]


class WordList(nn.Module):
    """Up to `count` words of a vocabulary, by their ids, which a checkpoint keeps; empty until `fit`."""

    ids: Tensor  # [K], -1 where there is no word
    frequency: Tensor  # [K], the share of the videos whose captions have the word

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("ids", torch.full((count,), -1))
        self.register_buffer("frequency", torch.zeros(count))

    def fit(self, references: Sequence[Sequence[str]], vocabulary: Vocabulary) -> bool:
        """Choose the most frequent words. A list that weights were trained for stays: False."""
        if bool((self.ids >= 0).any()):
            return False
        counts = video_counts(references)
        known = [word for word in frequent_words(references, len(counts)) if word in vocabulary][: len(self.ids)]
        self.ids[: len(known)] = self.ids.new_tensor([vocabulary[word] for word in known])
        shares = [counts[word] / len(references) for word in known]
        self.frequency[: len(known)] = self.frequency.new_tensor(shares)
        return True

    @property
    def listed(self) -> Tensor:
        """[K] bool."""
        return self.ids >= 0

    def labels(self, captions: Sequence[str], vocabulary: Vocabulary) -> Tensor:
        """Which of the words a video's captions have, [K]."""
        said = {vocabulary[word] for caption in captions for word in content_words(caption)}
        return torch.isin(self.ids.cpu(), torch.tensor(sorted(said), dtype=torch.long)).float()

    def named(self, values: Tensor, vocabulary: Vocabulary) -> dict[str, Tensor]:
        """values [B, K] → word → [B]."""
        tokens = vocabulary.tokens
        return {tokens[id]: x for id, x in zip(self.ids.tolist(), values.unbind(1), strict=True) if id >= 0}
