"""How METEOR splits an already tokenised caption once more when it is asked to normalise.

Its rules are those of the Moses tokenizer for English, applied to lower-case text; hyphens inside words become spaces.
"""

from __future__ import annotations

import re

_PLAIN = re.compile("[a-z0-9 ]*")
_HYPHEN = re.compile(r"([^\W_]\.?)-+([^\W_])")  # consumes both sides: `tug-o-war` keeps its second hyphen
_SPECIAL = re.compile(r"([^\w\s.'’,-]|_|[\u3040-\u30ff\u4e00-\u9fff])")
_DOTS = re.compile(r"(\.{2,})")
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")
_KEEP_PERIOD = frozenset(["v", "vs", "rev"])
_KEEP_PERIOD_BEFORE_NUMBER = frozenset(["pp"])


def normalize(words: list[str]) -> list[str]:
    """The words that METEOR compares, from the words of the caption tokenizer."""
    text = " ".join(words)
    if _PLAIN.fullmatch(text):
        return words
    text = _HYPHEN.sub(r"\1 \2", text)
    text = _SPECIAL.sub(r" \1 ", text)
    text = _DOTS.sub(r" \1 ", text)
    text = _COMMA.sub(" , ", text)
    text = _split_apostrophes(text)
    parts = text.split()
    following = [*parts[1:], ""]
    return [piece for part, after in zip(parts, following, strict=True) for piece in _final_period(part, after)]


def _split_apostrophes(text: str) -> str:
    """Before letters it opens the next word if letters precede it (`it 's`), otherwise it stands alone."""
    pieces: list[str] = []
    for at, character in enumerate(text):
        if character not in "'’":
            pieces.append(character)
            continue
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        joined = (before.isalpha() and after.isalpha()) or (before.isdigit() and after == "s")
        untouched = before.isdigit() and after.isalpha() and not joined
        pieces.append(character if untouched else f" {character}" if joined else f" {character} ")
    return "".join(pieces)


def _final_period(word: str, after: str) -> tuple[str, ...]:
    if len(word) < 2 or not word.endswith(".") or word.endswith(".."):
        return (word,)
    base = word[:-1]
    inside = "." in base and any(character.isalpha() for character in base)
    listed = base in _KEEP_PERIOD or (base in _KEEP_PERIOD_BEFORE_NUMBER and after[:1].isdigit())
    if inside or listed or "a" <= after[:1] <= "z":
        return (word,)
    return (base, ".")
