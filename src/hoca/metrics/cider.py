"""CIDEr as coco-caption computes it, which is CIDEr-D: clipped counts, a Gaussian penalty on length, times ten."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hoca.metrics.ngrams import ORDERS, Counts, Floats, ranges
from hoca.metrics.references import Candidates, References

SIGMA = 6.0


class Cider:
    """CIDEr against fixed references: their weights and norms are computed once.

    `frequencies` replaces the document frequencies counted in the references: for each word n-gram (a tuple of words)
    the number of documents that have it, `documents` being how many there were.
    """

    def __init__(
        self,
        references: References,
        frequencies: Mapping[tuple[str, ...], float] | None = None,
        documents: int | None = None,
    ) -> None:
        self._references = references
        self._log_documents = float(np.log(documents if documents is not None else references.size))
        if frequencies is None:
            frequency = [postings.videos_per_gram().astype(np.float64) for postings in references.postings]
        else:
            frequency = references.table.spread(frequencies, references.lexicon)
        self._idf = [self._log_documents - np.log(np.maximum(1.0, known)) for known in frequency]
        sentences = len(references.sentences.lengths)
        self._norms = [
            _norms(counts, idf, self._log_documents, sentences)
            for counts, idf in zip(references.table.counts, self._idf, strict=True)
        ]

    def __call__(self, candidates: Candidates) -> Floats:
        """Score per video, [B]."""
        references = self._references
        total = np.zeros(len(references.video))  # [S]
        for order in range(ORDERS):
            total += self._similarity(candidates.counts[order], order)
        bigrams = np.maximum(references.sentences.lengths - 1, 0)
        gap = np.maximum(candidates.sentences.lengths - 1, 0)[references.video] - bigrams
        total *= np.exp(-(gap.astype(np.float64) ** 2) / (2 * SIGMA**2))
        return 10.0 * np.add.reduceat(total, references.first) / ORDERS / references.per_video

    def _similarity(self, counts: Counts, order: int) -> Floats:
        """Clipped cosine of each reference with its video's candidate, [S]."""
        references = self._references
        postings = references.postings[order]
        at, known = postings.find(counts.sentence, counts.gram)
        entries = ranges(postings.first[at], postings.length[at])
        idf = self._idf[order][postings.gram[entries]]
        there = postings.count[entries] * idf
        here = np.repeat(counts.count[known], postings.length[at]) * idf
        owner = postings.sentence[entries]
        product = np.bincount(owner, weights=np.minimum(here, there) * there, minlength=len(references.video))
        norm = _norms(counts, self._idf[order], self._log_documents, references.size)[references.video]
        norm = norm * self._norms[order]
        return np.divide(product, norm, out=np.zeros(len(norm)), where=norm != 0)


def _norms(counts: Counts, idf: Floats, unknown: float, sentences: int) -> Floats:
    weights = np.full(len(counts.gram), unknown)
    known = counts.gram < len(idf)
    weights[known] = idf[counts.gram[known]]
    return np.sqrt(np.bincount(counts.sentence, weights=(counts.count * weights) ** 2, minlength=sentences))
