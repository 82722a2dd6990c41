"""METEOR 1.5 for English as coco-caption calls it: normalised text, all four matchers, default parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoca import assets
from hoca.metrics.alignment import STATISTICS, WEIGHTS, Phrase, phrases_of, statistics
from hoca.metrics.language import Language
from hoca.metrics.ngrams import Floats
from hoca.metrics.normalizer import normalize

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
_LONGEST = 128  # words of a sentence that the compiled loop takes
_OCCURRENCE = np.dtype([("node", "<u4"), ("sentence", "<i4"), ("start", "<i2"), ("length", "<i2")])
Tokens = Sequence[Sequence[str]]


@cache
def compiled_loop() -> ModuleType | None:
    """The C extension, None where there was no compiler when hoca was installed."""
    try:
        return import_module("hoca.metrics._meteor")
    except ImportError:
        return None


@cache
def english() -> Language:
    """English, loaded once per process; its file is pulled on first need."""
    return Language(assets.path("meteor-en"))


class Meteor:
    """METEOR against fixed references: their words and phrases are looked up once."""

    def __init__(self, references: Sequence[Tokens], language: Language | None = None, compiled: bool = True) -> None:
        self._language = language or english()
        self._loop = compiled_loop() if compiled else None
        self._references = [[self._numbers(tokens) for tokens in sentences] for sentences in references]
        if self._loop:
            self._packed = _Packed([s for sentences in self._references for s in sentences], self._language, self._loop)
            self._first = _offsets([len(sentences) for sentences in references])
            self._packed.sort_by_group(self._first)
        else:
            self._phrases = [[phrases_of(s, self._language) for s in sentences] for sentences in self._references]

    def __call__(self, candidates: Tokens) -> tuple[float, Floats]:
        """Corpus score, and score per video [B]."""
        words = [self._numbers(tokens) for tokens in candidates]
        statistics_, scores = self._compiled(words) if self._loop else self._plain(words)
        return score(_corpus(statistics_)), scores

    def _numbers(self, tokens: Sequence[str]) -> list[int]:
        return self._language.number(normalize(list(tokens)))

    def _plain(self, candidates: Sequence[list[int]]) -> tuple[Floats, Floats]:
        rows = [self._best(video, words) for video, words in enumerate(candidates)]
        return np.array(rows), np.array([score(row) for row in rows])

    def _best(self, video: int, words: list[int]) -> list[float]:
        """Statistics with the reference that gives the highest score, the first of equals."""
        ours = phrases_of(words, self._language)
        pairs = zip(self._references[video], self._reference_phrases(video), strict=True)
        return max((statistics(words, theirs, ours, phrases, self._language) for theirs, phrases in pairs), key=score)

    def _reference_phrases(self, video: int) -> list[list[Phrase]]:
        if self._loop:
            return [phrases_of(sentence, self._language) for sentence in self._references[video]]
        return self._phrases[video]

    def _compiled(self, candidates: Sequence[list[int]]) -> tuple[Floats, Floats]:
        loop = self._loop
        assert loop
        packed = _Packed(candidates, self._language, loop)
        known = self._language.arrays()
        stats = np.zeros((len(candidates), STATISTICS))
        scores = np.zeros(len(candidates))
        language = self._language
        arguments = (
            packed.words, packed.offsets, packed.phrases, packed.phrase_offsets,
            self._packed.words, self._packed.offsets, self._first, self._packed.phrases, self._packed.phrase_offsets,
            known["stem"], known["synonym_start"], known["synonym"], known["phrase_word"],
            known["function"],
            language.trie_words, language.child_start, language.partner_start, language.partners, language.roots,
            stats, scores,
        )  # fmt: skip
        too_long = {v for v, words in enumerate(candidates) if max(map(len, [words, *self._references[v]])) > _LONGEST}
        _in_two_threads(lambda begin, end: loop.score(*arguments, begin, end), len(candidates), too_long)
        for video in too_long:
            stats[video] = self._best(video, candidates[video])
            scores[video] = score(stats[video])
        return stats, scores


class _Packed:
    """Sentences and their phrases as flat arrays."""

    def __init__(self, sentences: Sequence[list[int]], language: Language, loop: ModuleType) -> None:
        self.words = np.array([word for sentence in sentences for word in sentence], np.int32)
        self.offsets = _offsets([len(sentence) for sentence in sentences])
        found = loop.phrases(
            self.words, self.offsets, language.arrays()["phrase_word"], language.trie_words,
            language.child_start, language.partner_start, language.roots,
        )  # fmt: skip
        self.phrases: NDArray[Any] = np.frombuffer(found, _OCCURRENCE)
        self.phrase_offsets = np.searchsorted(self.phrases["sentence"], np.arange(len(sentences) + 1)).astype(np.int64)

    def sort_by_group(self, first: NDArray[np.int64]) -> None:
        """Order the phrases by node within each group of sentences (the references of one video)."""
        group = np.searchsorted(first, self.phrases["sentence"], side="right") - 1
        order = np.argsort(group * (1 << 22) + self.phrases["node"], kind="stable")
        self.phrases = np.ascontiguousarray(self.phrases[order])
        self.phrase_offsets = np.searchsorted(group[order], np.arange(len(first))).astype(np.int64)


def _offsets(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _in_two_threads(work: Callable[[int, int], None], size: int, without: set[int]) -> None:
    """Call `work` on ranges of videos; the compiled loop releases the interpreter."""
    stops = sorted({-1, *without, size})
    ranges = [(before + 1, stop) for before, stop in pairwise(stops) if stop > before + 1]
    halves = [
        part for begin, end in ranges for middle in [(begin + end) // 2] for part in ((begin, middle), (middle, end))
    ]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda part: work(*part), halves))


def _corpus(stats: Floats) -> Floats:
    """Summed statistics; a candidate that equals its reference is no chunk at all in the corpus."""
    whole = (stats[:, 20] == 1) & (stats[:, 21] == stats[:, 0]) & (stats[:, 22] == stats[:, 1])
    total = stats.sum(0)
    total[20] -= whole.sum()
    return np.asarray(total)


def score(stats: Sequence[float] | Floats) -> float:
    """METEOR of one segment's statistics, or of their sum over a corpus."""
    matched1 = sum(w * (DELTA * stats[4 + 4 * k] + (1 - DELTA) * stats[6 + 4 * k]) for k, w in enumerate(WEIGHTS))
    matched2 = sum(w * (DELTA * stats[5 + 4 * k] + (1 - DELTA) * stats[7 + 4 * k]) for k, w in enumerate(WEIGHTS))
    if matched1 <= 0 or matched2 <= 0:
        return 0.0
    precision = matched1 / (DELTA * (stats[0] - stats[2]) + (1 - DELTA) * stats[2])
    recall = matched2 / (DELTA * (stats[1] - stats[3]) + (1 - DELTA) * stats[3])
    mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
    fragments = stats[20] / ((stats[21] + stats[22]) / 2)
    if stats[20] == 1 and stats[21] == stats[0] and stats[22] == stats[1]:
        fragments = 0.0
    return float(mean * (1 - (GAMMA * fragments**BETA if fragments > 0 else 0.0)))
