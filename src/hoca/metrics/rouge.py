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

    rows: Ints  # [n], which references
    words: Ints  # [n, width], padded with -1
    integer: np.dtype[Any]


class Rouge:
    """ROUGE-L against fixed references."""

    def __init__(self, references: References) -> None:
        self._references = references
        sentences = references.sentences
        starts = np.cumsum(sentences.lengths) - sentences.lengths
        self._buckets = []
        for shorter, width in pairwise((0, *_WIDTHS)):
            rows = np.flatnonzero((sentences.lengths > shorter) & (sentences.lengths <= width))
            if not len(rows):
                continue
            words = np.full((len(rows), width), -1, np.int64)
            lengths = sentences.lengths[rows]
            inside = np.arange(width) < lengths[:, None]  # [n, width]
            words[inside] = sentences.words[ranges(starts[rows], lengths)]
            self._buckets.append(_Bucket(rows, words, np.dtype(f"<u{width // 8}")))
        self._long = {
            int(row): sentences.words[starts[row] : starts[row] + sentences.lengths[row]].tolist()
            for row in np.flatnonzero(sentences.lengths > _WIDTHS[-1])
        }

    def __call__(self, candidates: Candidates) -> Floats:
        """Score per video, [B]."""
        references = self._references
        common = self._common(candidates.sentences)  # [S]
        # coco-caption splits the empty sentence into one empty word
        ours = np.maximum(candidates.sentences.lengths, 1)[references.video]
        theirs = np.maximum(references.sentences.lengths, 1)
        precision = np.maximum.reduceat(common / ours, references.first)
        recall = np.maximum.reduceat(common / theirs, references.first)
        weighted = recall + BETA**2 * precision
        return np.divide((1 + BETA**2) * precision * recall, weighted, out=np.zeros_like(weighted), where=weighted != 0)

    def _common(self, candidates: Sentences) -> Ints:
        """Length of the longest common subsequence of each reference and its video's candidate, [S]."""
        video = self._references.video
        starts = np.cumsum(candidates.lengths) - candidates.lengths
        both_empty = (self._references.sentences.lengths == 0) & (candidates.lengths[video] == 0)
        common = both_empty.astype(np.int64)
        for bucket in self._buckets:
            owner = video[bucket.rows]
            common[bucket.rows] = _bit_parallel(bucket, candidates.words, starts[owner], candidates.lengths[owner])
        for row, words in self._long.items():
            start = starts[video[row]]
            common[row] = _one_by_one(words, candidates.words[start : start + candidates.lengths[video[row]]].tolist())
        return common


def _bit_parallel(bucket: _Bucket, words: Ints, starts: Ints, lengths: Ints) -> Ints:
    """Hyyrö's recurrence, one bit per word of the reference: a zero marks a word of the subsequence found so far."""
    state = np.full(len(bucket.rows), -1, np.int64).astype(bucket.integer)
    for position in range(int(lengths.max(initial=0))):
        alive = np.flatnonzero(position < lengths)
        word = words[starts[alive] + position]
        match = _bits(bucket.words[alive] == word[:, None], bucket.integer)
        before = state[alive]
        here = before & match
        state[alive] = (before + here) | (before - here)
    zeros = np.unpackbits((~state).view(np.uint8)).reshape(len(state), -1)  # [n, width]
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
