"""References counted once, and the candidates that are compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hoca.metrics.ngrams import Counts, Ints, Lexicon, NgramTable, Sentences


class Postings:
    """For each n-gram of each video: which of its references have it, and how often."""

    def __init__(self, counts: Counts, video: Ints, size: int) -> None:
        self._grams = size
        pair = video[counts.sentence] * size + counts.gram
        order = np.argsort(pair, kind="stable")
        self.sentence = counts.sentence[order]
        self.count = counts.count[order]
        self.gram = counts.gram[order]
        self._pairs, self.first = np.unique(pair[order], return_index=True)
        self.length = np.diff(np.append(self.first, len(pair)))
        self.most = np.maximum.reduceat(self.count, self.first) if len(pair) else self.count

    def find(self, video: Ints, gram: Ints) -> tuple[Ints, Ints]:
        """Entries of the (video, n-gram) pairs that some reference has, and which of the pairs those are."""
        possible = np.flatnonzero(gram < self._grams)
        pair = video[possible] * self._grams + gram[possible]
        at = np.searchsorted(self._pairs, pair)
        inside = at < len(self._pairs)
        at, pair, possible = at[inside], pair[inside], possible[inside]
        same = self._pairs[at] == pair
        return at[same], possible[same]

    def videos_per_gram(self) -> Ints:
        """In how many videos each n-gram occurs, [grams]."""
        return np.bincount(self._pairs % self._grams, minlength=self._grams) if self._grams else np.zeros(0, np.int64)


class References:
    """Tokenised references of B videos, at least one each."""

    def __init__(self, tokens: Sequence[Sequence[Sequence[str]]]) -> None:
        lexicon = Lexicon()
        numbered = lexicon.add(sentence for sentences in tokens for sentence in sentences)
        self._count(numbered, [len(sentences) for sentences in tokens], lexicon)

    @classmethod
    def of(cls, sentences: Sentences, per_video: Sequence[int]) -> References:
        """References whose words are numbers already: those of the first video, of the second, …"""
        references = cls.__new__(cls)
        references._count(sentences, per_video, Lexicon())
        return references

    def _count(self, sentences: Sentences, per_video: Sequence[int], lexicon: Lexicon) -> None:
        self.size = len(per_video)
        self.per_video = np.array(per_video, np.int64)  # [B]
        self.video = np.repeat(np.arange(self.size), self.per_video)  # [S]
        self.first = np.cumsum(self.per_video) - self.per_video  # [B]
        self.lexicon = lexicon
        self.sentences = sentences
        self.table = NgramTable(sentences)
        self.postings = [
            Postings(counts, self.video, size) for counts, size in zip(self.table.counts, self.table.sizes, strict=True)
        ]


@dataclass(frozen=True)
class Candidates:
    """One tokenised candidate per video, counted with the references' numbers."""

    sentences: Sentences
    counts: list[Counts]

    @classmethod
    def of(cls, tokens: Sequence[Sequence[str]], references: References) -> Candidates:
        sentences = references.lexicon.look_up(tokens)
        return cls(sentences, references.table.count(sentences))
