"""Sentences as word numbers, and their n-grams as numbers, counted with array operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ORDERS = 4
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_WORD_BITS = 24  # a key is an (n-1)-gram's number in the high bits and a word's number in the low ones


@dataclass(frozen=True)
class Sentences:
    """A ragged batch of sentences: the word numbers of all of them in a row, and each one's length."""

    words: Ints  # [all words]
    lengths: Ints  # [S]

    def owners(self) -> Ints:
        """Which sentence each word belongs to, [all words]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


@dataclass(frozen=True)
class Counts:
    """How often each n-gram of one order occurs in each sentence; sorted by sentence, then n-gram."""

    sentence: Ints
    gram: Ints
    count: Ints


class Lexicon:
    """Numbers for words. Words that the references lack get numbers above all of theirs, for one batch only."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, sentences: Iterable[Sequence[str]]) -> Sentences:
        """Number `sentences`, learning new words."""
        return self._number(sentences, self.numbers)

    def look_up(self, sentences: Sequence[Sequence[str]]) -> Sentences:
        """Number `sentences`; unknown words are told apart but not learnt."""
        unknown = {word for sentence in sentences for word in sentence}.difference(self.numbers)
        if not unknown:
            return self._number(sentences, self.numbers)
        strangers = {word: len(self.numbers) + number for number, word in enumerate(unknown)}
        return self._number(sentences, self.numbers | strangers)

    @staticmethod
    def _number(sentences: Iterable[Sequence[str]], numbers: dict[str, int]) -> Sentences:
        words: list[int] = []
        lengths: list[int] = []
        for sentence in sentences:
            lengths.append(len(sentence))
            words.extend([numbers.setdefault(word, len(numbers)) for word in sentence])
        return Sentences(np.array(words, np.int64), np.array(lengths, np.int64))


class NgramTable:
    """Numbers for the 1- to 4-grams of the reference sentences, exact (no hashing)."""

    def __init__(self, references: Sentences) -> None:
        self._keys: list[Ints] = []
        self.sizes: list[int] = [int(references.words.max(initial=-1)) + 1]
        self.counts = self._count(references, learn=True)

    def count(self, sentences: Sentences) -> list[Counts]:
        """Counts per order; n-grams that no reference has get numbers of `sizes[order]` and above."""
        return self._count(sentences, learn=False)

    def spread(self, frequencies: Mapping[tuple[str, ...], float], lexicon: Lexicon) -> list[Floats]:
        """Values given per word n-gram, as one array per order over the n-grams of the references."""
        spread = [np.zeros(size) for size in self.sizes]
        for order in range(ORDERS):
            grams = [gram for gram in frequencies if len(gram) == order + 1 and all(w in lexicon.numbers for w in gram)]
            words = np.array([[lexicon.numbers[word] for word in gram] for gram in grams], np.int64)
            if not grams:
                continue
            number = words[:, 0]
            known = np.ones(len(grams), bool)
            for level in range(order):
                keys = (number << _WORD_BITS) | words[:, level + 1]
                number = _positions(self._keys[level], keys)
                known &= number < self.sizes[level + 1]
            value = np.array([frequencies[gram] for gram in grams], np.float64)
            spread[order][number[known]] = value[known]
        return spread

    def _count(self, sentences: Sentences, learn: bool) -> list[Counts]:
        owners = sentences.owners()
        grams = sentences.words  # of the n-gram that starts at each word
        starts = np.arange(len(grams))
        counted = [_tally(owners, grams)]
        for order in range(1, ORDERS):
            inside = starts + order < len(sentences.words)
            starts, grams = starts[inside], grams[inside]
            same = owners[starts] == owners[starts + order]
            starts, grams = starts[same], grams[same]
            keys = (grams << _WORD_BITS) | sentences.words[starts + order]
            if learn:
                table = _distinct(keys)
                self._keys.append(table)
                self.sizes.append(len(table))
            grams = _positions(self._keys[order - 1], keys)
            counted.append(_tally(owners[starts], grams))
        return counted


def _distinct(keys: Ints) -> Ints:
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _positions(table: Ints, keys: Ints) -> Ints:
    """Where each key stands in the sorted `table`; keys that it lacks get equal numbers iff they are equal."""
    found = np.searchsorted(table, keys)
    missing = found == len(table)
    missing[~missing] = table[found[~missing]] != keys[~missing]
    found[missing] = len(table) + np.unique(keys[missing], return_inverse=True)[1]
    return found


def _tally(sentence: Ints, gram: Ints) -> Counts:
    width = int(gram.max(initial=0)) + 1
    pairs, count = np.unique(sentence * width + gram, return_counts=True)
    return Counts(pairs // width, pairs % width, count)


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """The integers starts[i] … starts[i] + lengths[i] - 1 for each i, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
