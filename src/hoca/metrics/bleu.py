"""BLEU-1 … BLEU-4 as coco-caption computes them: the closest reference length, its two tiny constants."""

from __future__ import annotations

import numpy as np

from hoca.metrics.ngrams import ORDERS, Floats, Ints
from hoca.metrics.references import Candidates, References

NAMES = tuple(f"BLEU-{order}" for order in range(1, ORDERS + 1))
_TINY, _SMALL = 1e-15, 1e-9


def bleu(references: References, candidates: Candidates) -> tuple[list[float], list[Floats]]:
    """Corpus score and scores per video, for each order."""
    lengths = candidates.sentences.lengths  # [B]
    closest = _closest_lengths(references, lengths)
    guesses = np.stack([np.maximum(lengths - order, 0) for order in range(ORDERS)], axis=1)  # [B, 4]
    correct = np.stack([_clipped_matches(references, candidates, order) for order in range(ORDERS)], axis=1)
    corpus = _score(correct.sum(0), guesses.sum(0), lengths.sum(), closest.sum())
    return [float(score) for score in corpus], list(_score(correct, guesses, lengths, closest).T)


def _clipped_matches(references: References, candidates: Candidates, order: int) -> Ints:
    counts = candidates.counts[order]
    postings = references.postings[order]
    at, known = postings.find(counts.sentence, counts.gram)
    clipped = np.minimum(counts.count[known], postings.most[at])
    return np.bincount(counts.sentence[known], weights=clipped, minlength=references.size).astype(np.int64)


def _closest_lengths(references: References, lengths: Ints) -> Ints:
    gaps = np.abs(references.sentences.lengths - lengths[references.video])  # [S]
    far = int(references.sentences.lengths.max(initial=0)) + 1
    ranked = gaps * far + references.sentences.lengths  # the nearest, the shorter one on a tie
    return np.minimum.reduceat(ranked, references.first) % far


def _score(correct: Ints, guesses: Ints, length: Ints, closest: Ints) -> Floats:
    """[..., 4] from the matches and guesses of each order [..., 4] and the two lengths [...]."""
    product = np.cumprod((correct + _TINY) / (guesses + _SMALL), axis=-1)
    means = product ** (1 / np.arange(1, ORDERS + 1))
    ratio = (length + _TINY) / (closest + _SMALL)
    penalty = np.where(ratio < 1, np.exp(1 - 1 / np.minimum(ratio, 1)), 1.0)
    return means * penalty[..., None]
