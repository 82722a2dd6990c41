"""METEOR 1.5 for English as coco-caption calls it: normalised text, all four matchers, default parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
from hoca.metrics.ngrams import Floats, Ints, ranges
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
            packed = _Packed.of([s for sentences in self._references for s in sentences], self._language, self._loop)
            self._packed = _References.of(packed, _offsets([len(sentences) for sentences in references]))
        else:
            self._phrases = [[phrases_of(s, self._language) for s in sentences] for sentences in self._references]

    def __call__(self, candidates: Tokens) -> tuple[float, Floats]:
        """Corpus score, and score per video [B]."""
        statistics_, scores = self._scored(candidates, None)
        return score(_corpus(statistics_)), scores

    def of_rows(self, candidates: Tokens, video: Ints) -> Floats:
        """Score of each candidate [C] against the references of its video, video [C]."""
        return self._scored(candidates, video)[1]

    def _scored(self, candidates: Tokens, video: Ints | None) -> tuple[Floats, Floats]:
        """Statistics [C, STATISTICS] and scores [C]; video None: a candidate of each video, in their order."""
        words = [self._numbers(tokens) for tokens in candidates]
        of_video = list(range(len(words)) if video is None else video.tolist())
        if not self._loop:
            rows = [self._best(*each) for each in zip(of_video, words, strict=True)]
            return np.array(rows), np.array([score(row) for row in rows])
        return self._compiled(words, of_video, self._packed if video is None else self._packed.rows(video))

    def _numbers(self, tokens: Sequence[str]) -> list[int]:
        return self._language.number(normalize(list(tokens)))

    def _best(self, video: int, words: list[int]) -> list[float]:
        """Statistics with the reference that gives the highest score, the first of equals."""
        ours = phrases_of(words, self._language)
        pairs = zip(self._references[video], self._reference_phrases(video), strict=True)
        return max((statistics(words, theirs, ours, phrases, self._language) for theirs, phrases in pairs), key=score)

    def _reference_phrases(self, video: int) -> list[list[Phrase]]:
        if self._loop:
            return [phrases_of(sentence, self._language) for sentence in self._references[video]]
        return self._phrases[video]

    def _compiled(
        self, candidates: Sequence[list[int]], video: Sequence[int], references: _References
    ) -> tuple[Floats, Floats]:
        loop = self._loop
        assert loop
        packed = _Packed.of(candidates, self._language, loop)
        known = self._language.arrays()
        stats = np.zeros((len(candidates), STATISTICS))
        scores = np.zeros(len(candidates))
        language, theirs = self._language, references.sentences
        arguments = (
            packed.words, packed.offsets, packed.phrases, packed.phrase_offsets,
            theirs.words, theirs.offsets, references.first, theirs.phrases, theirs.phrase_offsets,
            known["stem"], known["synonym_start"], known["synonym"], known["phrase_word"],
            known["function"],
            language.trie_words, language.child_start, language.partner_start, language.partners, language.roots,
            stats, scores,
        )  # fmt: skip
        too_long = {
            row
            for row, (words, of) in enumerate(zip(candidates, video, strict=True))
            if max(map(len, [words, *self._references[of]])) > _LONGEST
        }
        _in_two_threads(lambda begin, end: loop.score(*arguments, begin, end), len(candidates), too_long)
        for row in too_long:
            stats[row] = self._best(video[row], candidates[row])
            scores[row] = score(stats[row])
        return stats, scores


@dataclass(frozen=True)
class _Packed:
    """Sentences and their phrases as flat arrays."""

    words: NDArray[np.int32]
    offsets: NDArray[np.int64]
    phrases: NDArray[Any]
    phrase_offsets: NDArray[np.int64]  # by sentence; of references, by video

    @classmethod
    def of(cls, sentences: Sequence[list[int]], language: Language, loop: ModuleType) -> _Packed:
        words = np.array([word for sentence in sentences for word in sentence], np.int32)
        offsets = _offsets([len(sentence) for sentence in sentences])
        found = loop.phrases(
            words, offsets, language.arrays()["phrase_word"], language.trie_words,
            language.child_start, language.partner_start, language.roots,
        )  # fmt: skip
        phrases: NDArray[Any] = np.frombuffer(found, _OCCURRENCE)
        at = np.searchsorted(phrases["sentence"], np.arange(len(sentences) + 1)).astype(np.int64)
        return cls(words, offsets, phrases, at)


@dataclass(frozen=True)
class _References:
    """The references of several videos, one video after the other; phrases by node within a video."""

    sentences: _Packed
    first: NDArray[np.int64]  # number of each video's first sentence, then of all

    @classmethod
    def of(cls, sentences: _Packed, first: NDArray[np.int64]) -> _References:
        video = np.searchsorted(first, sentences.phrases["sentence"], side="right") - 1
        order = np.argsort(video * (1 << 22) + sentences.phrases["node"], kind="stable")
        at = np.searchsorted(video[order], np.arange(len(first))).astype(np.int64)
        phrases = np.ascontiguousarray(sentences.phrases[order])
        return cls(replace(sentences, phrases=phrases, phrase_offsets=at), first)

    def rows(self, video: Ints) -> _References:
        """Those of each of `video` [C], which may name one several times."""
        packed, counts = self.sentences, np.diff(self.first)[video]
        sentences, first = ranges(self.first[video], counts), _offsets(counts)
        lengths = np.diff(packed.offsets)[sentences]
        words = packed.words[ranges(packed.offsets[sentences], lengths)]
        found = np.diff(packed.phrase_offsets)[video]
        phrases = packed.phrases[ranges(packed.phrase_offsets[video], found)]
        phrases["sentence"] += np.repeat(first[:-1] - self.first[video], found).astype(np.int32)
        return _References(_Packed(words, _offsets(lengths), phrases, _offsets(found)), first)


def _offsets(lengths: Sequence[int] | Ints) -> NDArray[np.int64]:
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
