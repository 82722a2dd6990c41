"""Stems of English words: the Porter2 algorithm, as its author describes it, in the version METEOR 1.5 uses."""

from __future__ import annotations

import re
from functools import lru_cache

_VOWELS = "aeiouy"
_SPECIAL = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl", "gently": "gentl",
    "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl", "sky": "sky", "news": "news", "howe": "howe",
    "atlas": "atlas", "cosmos": "cosmos", "bias": "bias", "andes": "andes",
}  # fmt: skip
_FINISHED = frozenset(["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"])
_REGION_PREFIX = re.compile("gener|commun|arsen")
_AFTER_VOWEL = re.compile(f"[{_VOWELS}][^{_VOWELS}]")
_VOWEL = re.compile(f"[{_VOWELS}]")
_CONSONANT_Y = re.compile("^y|(?<=[aeiou])y|(?<=[^aeiou]y)y")
_POSSESSIVE = re.compile("(?:'s'|'s|')$")
_SHORT_END = re.compile(f"(?:^[{_VOWELS}][^{_VOWELS}]|[^{_VOWELS}][{_VOWELS}][^{_VOWELS}wxY])$")
_DOUBLE_END = re.compile("(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$")
_STEP_2 = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("tional", "tion"), ("biliti", "ble"), ("lessli", "less"), ("entli", "ent"), ("ation", "ate"), ("alism", "al"),
    ("aliti", "al"), ("ousli", "ous"), ("iviti", "ive"), ("fulli", "ful"), ("enci", "ence"), ("anci", "ance"),
    ("abli", "able"), ("izer", "ize"), ("ator", "ate"), ("alli", "al"), ("bli", "ble"),
)  # fmt: skip
_STEP_3 = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"), ("iciti", "ic"), ("ical", "ic"),
    ("ness", ""), ("ful", ""),
)  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "al", "er",
    "ic",
)  # fmt: skip


@lru_cache(maxsize=1 << 17)
def stem(word: str) -> str:
    """The stem of one lower-case word."""
    if len(word) < 3:
        return word
    if word in _SPECIAL:
        return _SPECIAL[word]
    word = _mark_consonant_y(word.removeprefix("'"))
    first, second = _regions(word)
    word = _plural(_POSSESSIVE.sub("", word) if "'" in word else word)
    if word in _FINISHED:
        return word
    word = _final_y(_past_and_gerund(word, first))
    word = _derivations(word, first, second)
    return _last_letter(word, first, second).lower()


def _mark_consonant_y(word: str) -> str:
    """A `Y` is a consonant from here on."""
    if "y" not in word:
        return word
    return _CONSONANT_Y.sub("Y", word)


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 start: after the first, and after the next, non-vowel that follows a vowel."""
    prefix = _REGION_PREFIX.match(word)
    found = prefix or _AFTER_VOWEL.search(word)
    first = found.end() if found else len(word)
    found = _AFTER_VOWEL.search(word, first)
    return first, found.end() if found else len(word)


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _VOWEL.search(word[:-2]):
        return word[:-1]
    return word


def _past_and_gerund(word: str, first: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            return word[: -len(ending)] + "ee" if len(word) - len(ending) >= first else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if word.endswith(ending):
            base = word[: -len(ending)]
            if not _VOWEL.search(base):
                return word
            if base.endswith(("at", "bl", "iz")):
                return base + "e"
            if _DOUBLE_END.search(base):
                return base[:-1]
            return base + "e" if first >= len(base) and _SHORT_END.search(base) else base
    return word


def _final_y(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


def _derivations(word: str, first: int, second: int) -> str:
    word = _step_2(word, first)
    word = _step_3(word, first, second)
    for ending in _STEP_4:
        if word.endswith(ending):
            return word[: -len(ending)] if len(word) - len(ending) >= second else word
    if word.endswith(("sion", "tion")) and len(word) - 3 >= second:
        return word[:-3]
    return word


def _step_2(word: str, first: int) -> str:
    if word[-1:] not in ("l", "n", "s", "i", "m", "r"):
        return word
    for ending, replacement in _STEP_2:
        if word.endswith(ending):
            return word[: -len(ending)] + replacement if len(word) - len(ending) >= first else word
    if word.endswith("ogi"):
        return word[:-1] if len(word) - 3 >= first and word.endswith("logi") else word
    if word.endswith("li") and len(word) - 2 >= first and word[-3:-2] in tuple("cdeghkmnrt"):
        return word[:-2]
    return word


def _step_3(word: str, first: int, second: int) -> str:
    for ending, replacement in _STEP_3:
        if word.endswith(ending):
            return word[: -len(ending)] + replacement if len(word) - len(ending) >= first else word
    if word.endswith("ative") and len(word) - 5 >= second:
        return word[:-5]
    return word


def _last_letter(word: str, first: int, second: int) -> str:
    end = len(word) - 1
    if word.endswith("e"):
        return word[:-1] if end >= second or (end >= first and not _SHORT_END.search(word[:-1])) else word
    if word.endswith("ll") and end >= second:
        return word[:-1]
    return word
