"""Words and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hoca.errors import UserError
from hoca.options import encodable, shortened
from hoca.text.tokenizer import tokenize

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
MOST = 1 << 20  # no language has as many words


class Vocabulary:
    """The words a captioner knows. Ids 0–3 are `<pad>`, `<bos>`, `<eos>`, `<unk>`; `words[i]` has id i + 4."""

    pad, bos, eos, unk = range(4)

    def __init__(self, words: Iterable[str]) -> None:
        self.words: list[str] = list(words)
        self._ids: dict[str, int] = {}
        for place, word in enumerate(self.words):
            if not isinstance(word, str) or not word or word.split() != [word] or not encodable(word):
                raise UserError(f"vocabulary: word {place} is {shortened(word)}, expected one word without spaces")
            if word in SPECIALS:
                raise UserError(f"vocabulary: word {place} is {word}, which every vocabulary has: leave it out")
            if word in self._ids:
                raise UserError(
                    f"vocabulary: {shortened(word)} is word {self._ids[word] - len(SPECIALS)} and {place}: keep one"
                )
            self._ids[word] = place + len(SPECIALS)

    @classmethod
    def build(cls, captions: Iterable[str], minimum: int = 1) -> Vocabulary:
        """Every word that occurs at least `minimum` times, tokenised as the metrics do; frequent first, then a–z."""
        counts = Counter(word for caption in captions for word in tokenize(caption))
        kept = sorted((-count, word) for word, count in counts.items() if count >= minimum and word not in SPECIALS)
        if not kept:
            raise UserError(f"no word occurs {minimum} times in the captions: lower the minimum count")
        return cls(word for _, word in kept)

    @property
    def tokens(self) -> list[str]:
        """Everything that has an id, in the order of the ids."""
        return [*SPECIALS, *self.words]

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __getitem__(self, word: str) -> int:
        """The id of a word, that of `<unk>` for a word outside."""
        return self._ids.get(word, self.unk)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(tuple(self.words))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self.words)} words)"

    def encode(self, caption: str | Sequence[str]) -> list[int]:
        """`[bos, w1, …, wn, eos]`; a text is tokenised as the metrics do, a list of tokens is taken as it is."""
        tokens = tokenize(caption) if isinstance(caption, str) else caption
        return [self.bos, *(self[token] for token in tokens), self.eos]

    def decode(self, ids: Iterable[int]) -> str:
        """The words up to the first `<eos>`, joined by spaces; `<bos>` and `<pad>` are left out."""
        words = []
        for id in map(int, ids):
            if id == self.eos:
                break
            if id == self.unk:
                words.append(SPECIALS[id])
            elif id >= len(SPECIALS):
                words.append(self.words[id - len(SPECIALS)])
        return " ".join(words)

    def to_json(self) -> list[str]:
        """The words without the special ones: what `from_json` takes."""
        return list(self.words)

    @classmethod
    def from_json(cls, words: Any) -> Vocabulary:
        if not isinstance(words, list):
            raise UserError(f"vocabulary: a {type(words).__name__}, expected a list of words")
        if len(words) >= MOST:
            raise UserError(f"vocabulary: {len(words)} words, expected fewer than {MOST}")
        return cls(words)
