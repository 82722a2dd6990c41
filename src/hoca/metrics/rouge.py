"""ROUGE-L as coco-caption computes it: the best recall and the best precision over the references, beta = 1.2."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoca.metrics.ngrams import Floats, Ints, Sentences, ranges
from hoca.metrics.references import Candidates, References

BETA = 1.2
_WIDTHS = (8, 16, 32, 64)


@dataclass(frozen=True)
class _Bucket:
    """References of similar length, padded to as many words as an unsigned integer has bits."""

    words: Ints  # [n, width], padded with -1
    integer: np.dtype[Any]


class Rouge:
    """ROUGE-L against fixed references."""

    def __init__(self, references: References) -> None:
        self._references = references
        sentences = references.sentences
        starts = np.cumsum(sentences.lengths) - sentences.lengths
        self._buckets: list[_Bucket] = []
        self._bucket = np.full(len(sentences.lengths), -1, np.int64)  # [S], of each reference
        self._place = np.zeros(len(sentences.lengths), np.int64)  # [S], in its bucket
        for shorter, width in pairwise((0, *_WIDTHS)):
            rows = np.flatnonzero((sentences.lengths > shorter) & (sentences.lengths <= width))
            if not len(rows):
                continue
            words = np.full((len(rows), width), -1, np.int64)
            lengths = sentences.lengths[rows]
            inside = np.arange(width) < lengths[:, None]  # [n, width]
            words[inside] = sentences.words[ranges(starts[rows], lengths)]
            self._bucket[rows], self._place[rows] = len(self._buckets), np.arange(len(rows))
            self._buckets.append(_Bucket(words, np.dtype(f"<u{width // 8}")))
        self._long = {
            int(row): sentences.words[starts[row] : starts[row] + sentences.lengths[row]].tolist()
            for row in np.flatnonzero(sentences.lengths > _WIDTHS[-1])
        }

    def __call__(self, candidates: Candidates) -> Floats:
        """Score of each video's candidate, [B]."""
        return self.of_rows(candidates.sentences, np.arange(self._references.size))

    def of_rows(self, candidates: Sentences, video: Ints) -> Floats:
        """Score of each candidate [C] against the references of its video, video [C]."""
        references = self._references
        counts = references.per_video[video]
        owner = np.repeat(np.arange(len(video)), counts)  # [P], one pair for each reference of each candidate
        reference = ranges(references.first[video], counts)  # [P]
        first_pair = np.cumsum(counts) - counts  # [C]
        common = self._common(candidates, owner, reference)  # [P]
        # coco-caption splits the empty sentence into one empty word
        ours = np.maximum(candidates.lengths, 1)[owner]
        theirs = np.maximum(references.sentences.lengths, 1)[reference]
        precision = np.maximum.reduceat(common / ours, first_pair)
        recall = np.maximum.reduceat(common / theirs, first_pair)
        weighted = recall + BETA**2 * precision
        return np.divide((1 + BETA**2) * precision * recall, weighted, out=np.zeros_like(weighted), where=weighted != 0)

    def _common(self, candidates: Sentences, owner: Ints, reference: Ints) -> Ints:
        """Length of the longest common subsequence of each pair of a candidate and a reference, [P]."""
        starts, lengths = (np.cumsum(candidates.lengths) - candidates.lengths)[owner], candidates.lengths[owner]
        both_empty = (self._references.sentences.lengths[reference] == 0) & (lengths == 0)
        common = both_empty.astype(np.int64)
        for number, bucket in enumerate(self._buckets):
            pairs = np.flatnonzero(self._bucket[reference] == number)
            words = bucket.words[self._place[reference[pairs]]]
            common[pairs] = _bit_parallel(words, bucket.integer, candidates.words, starts[pairs], lengths[pairs])
        for row, long in self._long.items():
            for pair in np.flatnonzero(reference == row):
                common[pair] = _one_by_one(long, candidates.words[starts[pair] :][: lengths[pair]].tolist())
        return common


def _bit_parallel(references: Ints, integer: np.dtype[Any], words: Ints, starts: Ints, lengths: Ints) -> Ints:
    """Hyyrö's recurrence, one bit per word of the reference: a zero marks a word of the subsequence found so far."""
    state = np.full(len(references), -1, np.int64).astype(integer)
    for position in range(int(lengths.max(initial=0))):
        alive = np.flatnonzero(position < lengths)
        word = words[starts[alive] + position]
        match = _bits(references[alive] == word[:, None], integer)
        before = state[alive]
        here = before & match
        state[alive] = (before + here) | (before - here)
    zeros = np.unpackbits((~state).view(np.uint8)).reshape(references.shape)  # [n, width]
    return zeros.sum(1, dtype=np.int64)


def _bits(flags: NDArray[np.bool_], integer: np.dtype[Any]) -> NDArray[Any]:
    return np.packbits(flags, axis=1, bitorder="little").view(integer)[:, 0]  # [n, width] -> [n]


def _one_by_one(reference: list[int], candidate: list[int]) -> int:
    row = [0] * (len(candidate) + 1)
    for word in reference:
        diagonal = 0
        for column, other in enumerate(candidate, 1):
            above = row[column]
            row[column] = diagonal + 1 if word == other else max(above, row[column - 1])
            diagonal = above
    return row[-1]
