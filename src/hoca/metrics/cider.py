"""CIDEr as coco-caption computes it, which is CIDEr-D: clipped counts, a Gaussian penalty on length, times ten."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hoca.metrics.ngrams import ORDERS, Counts, Floats, Ints, Sentences, ranges
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
        """Score of each video's candidate, [B]."""
        return self.of_rows(candidates, np.arange(self._references.size))

    def of_rows(self, candidates: Candidates, video: Ints) -> Floats:
        """Score of each candidate [C] against the references of its video, video [C]."""
        references = self._references
        lengths = references.per_video[video]
        owner = np.repeat(np.arange(len(video)), lengths)  # [P], one pair for each reference of each candidate
        reference = ranges(references.first[video], lengths)  # [P]
        first_pair = np.cumsum(lengths) - lengths  # [C]
        total = np.zeros(len(owner))
        for order in range(ORDERS):
            total += self._similarity(candidates.counts[order], order, video, first_pair, owner, reference)
        gap = _bigrams(candidates.sentences)[owner] - _bigrams(references.sentences)[reference]
        total *= np.exp(-(gap.astype(np.float64) ** 2) / (2 * SIGMA**2))
        return 10.0 * np.bincount(owner, weights=total, minlength=len(video)) / ORDERS / lengths

    def of_references(self) -> Floats:
        """Score of each reference against the other references of its video, [S]; 0 where it is the only one."""
        references = self._references
        whole = self.of_rows(Candidates(references.sentences, references.table.counts), references.video)
        itself = 10.0 * sum((norms != 0).astype(np.float64) for norms in self._norms) / ORDERS
        count = references.per_video[references.video]
        return np.where(count > 1, (count * whole - itself) / np.maximum(count - 1, 1), 0.0)

    def _similarity(
        self, counts: Counts, order: int, video: Ints, first_pair: Ints, owner: Ints, reference: Ints
    ) -> Floats:
        """Clipped cosine of each pair of a candidate and a reference, [P]."""
        references = self._references
        postings = references.postings[order]
        at, known = postings.find(video[counts.sentence], counts.gram)
        entries = ranges(postings.first[at], postings.length[at])
        candidate = np.repeat(counts.sentence[known], postings.length[at])
        idf = self._idf[order][postings.gram[entries]]
        there = postings.count[entries] * idf
        here = np.repeat(counts.count[known], postings.length[at]) * idf
        pair = first_pair[candidate] + postings.sentence[entries] - references.first[video[candidate]]
        product = np.bincount(pair, weights=np.minimum(here, there) * there, minlength=len(owner)).astype(np.float64)
        norm = _norms(counts, self._idf[order], self._log_documents, len(video))[owner] * self._norms[order][reference]
        return np.divide(product, norm, out=product, where=norm != 0)


def _bigrams(sentences: Sentences) -> Ints:
    return np.maximum(sentences.lengths - 1, 0)


def _norms(counts: Counts, idf: Floats, unknown: float, sentences: int) -> Floats:
    weights = np.full(len(counts.gram), unknown)
    known = counts.gram < len(idf)
    weights[known] = idf[counts.gram[known]]
    return np.sqrt(np.bincount(counts.sentence, weights=(counts.count * weights) ** 2, minlength=sentences))
