"""What METEOR knows of English: function words, synonym sets, paraphrases, and what each word has of them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from hoca.metrics.stemmer import stem

NODE_MASK = (1 << 22) - 1
# An ending, what takes its place; the first rule that leads to a known word is the base form.
_ENDINGS = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""), ("er", ""), ("est", ""), ("er", "e"),
    ("est", "e"),
)  # fmt: skip
_LAST_LETTERS = frozenset(ending[-1] for ending, _ in _ENDINGS)


class Language:
    """The word lists of one language, and the words met so far with their numbers and properties."""

    def __init__(self, file: Path) -> None:
        arrays = load_file(file)
        self._function_words = frozenset(_lines(arrays["function_words"]))
        self._synonym_number = {word: number for number, word in enumerate(_lines(arrays["synonym_words"]))}
        self._synonym_bounds = _bounds(arrays["synonym_counts"])
        self._synonym_sets = arrays["synonym_sets"]
        self._bases: dict[str, list[str]] = {}
        for line in _lines(arrays["exceptions"]):
            form, base = line.split(" ")
            self._bases.setdefault(form, []).append(base)
        self._phrase_number = {word: number for number, word in enumerate(_lines(arrays["phrase_words"]))}
        self.roots = int(arrays["trie_roots"][0])
        self.trie_words = arrays["trie_words"]
        self.child_start = _bounds(arrays["trie_children"], self.roots)
        self.partner_start = _bounds(arrays["partner_counts"])
        self.partners = arrays["partners"]  # [all, 3], little-endian 24 bits
        self._numbers: dict[str, int] = {}
        self._stem_numbers: dict[str, int] = {}
        self.stems: list[int] = []
        self.is_function: list[bool] = []
        self.synsets: list[list[int]] = []
        self.phrase_words: list[int] = []
        self._arrays: dict[str, NDArray[Any]] = {}

    def number(self, words: list[str]) -> list[int]:
        """Numbers of `words`; a word met for the first time has its properties looked up."""
        known = self._numbers
        try:
            return [known[word] for word in words]
        except KeyError:
            return [known[word] if word in known else self._learn(word) for word in words]

    def _learn(self, word: str) -> int:
        number = self._numbers[word] = len(self._numbers)
        self.stems.append(self._stem_numbers.setdefault(stem(word), len(self._stem_numbers)))
        self.is_function.append(word in self._function_words)
        self.synsets.append(sorted(self._synsets(word)))
        self.phrase_words.append(self._phrase_number.get(word, -1))
        return number

    def _synsets(self, word: str) -> set[int]:
        """Synonym sets of the word and of its base form."""
        found = self._listed(word)
        if word in self._bases:
            return found.union(*(self._listed(base) for base in self._bases[word]))
        if len(word) > 2 and word[-1] in _LAST_LETTERS:
            for ending, replacement in _ENDINGS:
                if word.endswith(ending) and not (ending == "s" and word.endswith("ss")):
                    base = word.removesuffix(ending) + replacement
                    if base in self._synonym_number:
                        return found | self._listed(base)
        return found

    def _listed(self, word: str) -> set[int]:
        number = self._synonym_number.get(word)
        if number is None:
            return set()
        return set(self._synonym_sets[self._synonym_bounds[number] : self._synonym_bounds[number + 1]].tolist())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The properties of all words met so far as arrays, for the compiled loop."""
        if not self._arrays or len(self._arrays["stem"]) != len(self.stems):
            counts = np.array([len(members) for members in self.synsets], np.int64)
            self._arrays = {
                "stem": np.array(self.stems, np.int32),
                "function": np.array(self.is_function, np.uint8),
                "synonym_start": _bounds(counts).astype(np.int32),
                "synonym": np.array([member for members in self.synsets for member in members], np.int32),
                "phrase_word": np.array(self.phrase_words, np.int32),
            }
        return self._arrays

    @lru_cache(maxsize=1 << 16)  # noqa: B019 - a process has one language
    def partners_of(self, node: int) -> dict[int, int]:
        """Paraphrases of a phrase: node → which side the table names first (1 this one, 2 the other, 3 both)."""
        rows = self.partners[self.partner_start[node] : self.partner_start[node + 1]].astype(np.int64)
        packed = rows @ np.array([1, 1 << 8, 1 << 16])
        return dict(zip((packed & NODE_MASK).tolist(), (packed >> 22).tolist(), strict=True))

    def child(self, node: int, word: int) -> int:
        """The node of a phrase one word longer, or -1; the node -1 is the empty phrase."""
        low, high = (0, self.roots) if node < 0 else (int(self.child_start[node]), int(self.child_start[node + 1]))
        at = low + int(np.searchsorted(self.trie_words[low:high], word))
        return at if at < high and self.trie_words[at] == word else -1


def _lines(text: NDArray[np.uint8]) -> list[str]:
    return text.tobytes().decode().split("\n")


def _bounds(counts: NDArray[Any], first: int = 0) -> NDArray[np.uint32]:
    bounds = np.empty(len(counts) + 1, np.uint32)
    bounds[0] = first
    np.cumsum(counts, out=bounds[1:], dtype=np.uint32)
    bounds[1:] += np.uint32(first)
    return bounds
