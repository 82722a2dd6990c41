"""What counts as one Penn Treebank token: one named pattern per kind, the more special kinds first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """`pattern` has a group `token`, what is taken, and a group `ahead`, what must follow; both count for the reach."""

    name: str
    pattern: re.Pattern[str]


def _rule(name: str, token: str, ahead: str = "") -> Rule:
    return Rule(name, re.compile(f"(?P<token>{token})(?P<ahead>{ahead})"))


SPLIT_AT = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "gimme": 3, "lemme": 3}
SPLIT_WORDS = frozenset(SPLIT_AT)


def split_word(word: str) -> list[str]:
    """`cannot` is two words of the treebank, `can` and `not`; most words are one."""
    at = SPLIT_AT.get(word)
    return [word[:at], word[at:]] if at else [word]


ABBREVIATIONS = """
    adj adm adv al ala alex apr ariz assn asst atty aug ave bhd bldg blvd brig bros calif capt cf cie cmdr co col colo
    comdr conn corp cos cpl ct dak dec dept det dr drs elec ens esq est etc ext feb fla fri ft ga gen gov govs hon inc
    ind insp intl invt jan jos jr jul jun kan kans ky lt ltd maj mar md messrs mich minn mlle mme mo mon mont mr mrs ms
    msgr mt natl neb nev nov oct okla penn pfc ph plc pres prof pvt rd rep reps rev rt sen sens sep sept seq sfc sgt spc
    sq sr st ste supt sys tel tenn thu thurs tue tues univ va vs vt wed wis wisc wm wyo
"""
ONLY_CAPITALISED = "ark az del ill la mass miss ore pa tex wash"  # ordinary words when in lower case
NEVER_ALL_CAPITALS = "mfg mtg ppte ppty pte ptes pty ptys"
BEFORE_A_NUMBER = "art ca fig figs no nos op pp prop"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_CAPITALISED = _any_of([form for word in ONLY_CAPITALISED.split() for form in (word.capitalize(), word.upper())])
_NOT_CAPITALS = _any_of([form for word in NEVER_ALL_CAPITALS.split() for form in (word, word.capitalize())])
_ABBREVIATION = rf"(?:(?i:{_any_of(ABBREVIATIONS.split())})|{_CAPITALISED}|{_NOT_CAPITALS})\."

_APOSTROPHE = "['‘’‛]"
_LETTER = r"[^\W\d_]"
_LETTER_OR_DIGIT = r"[^\W_]"
_WORD = rf"{_LETTER}{_LETTER_OR_DIGIT}*(?:[.!?]{_LETTER}{_LETTER_OR_DIGIT}*)*"
_THING = r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*"
_HYPHENATED = rf"{_LETTER_OR_DIGIT}[\w.,%]*(?:-{_LETTER_OR_DIGIT}+)+"
_NUMBER = r"\d*(?:[.:,]\d+)+|\d+"
_REDUCED = "(?i:[msd]|re|ve|ll)"
_ENDS = "(?![A-Za-z])"

RULES = (
    _rule("split", f"(?i:{_any_of(SPLIT_AT)})"),
    _rule("tag", r"<(?:/?[A-Za-z][A-Za-z0-9]*(?: +[a-z]+ *= *(?:\"[^\"]*\"|'[^']*'))* */?|[!?][A-Za-z-][^>]*)>"),
    _rule("address", r"https?://[^ \"<>|(){}]+[^ \"<>|.!?(){},-]"),
    _rule("address", r"(?:[^ \"`'<>|.!?(){},_$-]+\.)+(?:com|org|net|edu|gov)(?:/[^ \"<>|(){}]+[^ \"<>|.!?(){},-])?"),
    _rule("address", r"www\.(?:[^ \"`'<>|.!?(){},-]+\.)+[a-zA-Z]{2,4}"),
    _rule("mail", r"<?[A-Za-z0-9][^ \"<>|(){}]*@[^ \"<>|(){}.]+(?:\.[^ \"<>|(){}.]+)*>?"),
    _rule("handle", r"@[A-Za-z_]\w*|#[A-Za-z]+"),
    _rule("not", rf"(?i:n){_APOSTROPHE}(?i:t)"),
    _rule("word", rf"{_WORD}?", rf"(?i:n){_APOSTROPHE}(?i:t)"),
    _rule("word", _WORD, rf"{_APOSTROPHE}{_REDUCED}{_ENDS}"),
    _rule("reduced", rf"{_APOSTROPHE}{_REDUCED}{_ENDS}"),
    _rule("reduced", rf"{_APOSTROPHE}(?i:em|till?|cause|n{_APOSTROPHE}?(?![A-Za-z]))"),
    _rule("reduced", rf"{_APOSTROPHE}(?i:t)", "(?i:is|was)"),
    _rule("year", rf"{_APOSTROPHE}\d\ds?"),
    _rule("elided", rf"[dDlLoO]{_APOSTROPHE}{_LETTER_OR_DIGIT}{{2,}}|n{_APOSTROPHE}{_LETTER}{{2,}}"),
    _rule("elided", rf"[A-HJ-XZ]{_APOSTROPHE}{_LETTER}{{2,}}|{_LETTER}+[aeiouy]{_APOSTROPHE}[aeiou]{_LETTER}+"),
    _rule("elided", rf"(?i:c{_APOSTROPHE}mon|cap{_APOSTROPHE}n)"),
    _rule("elided", rf"(?i:[djly]|ol){_APOSTROPHE}", _LETTER),
    _rule("date", r"\d{1,2}[-/]\d{1,2}[-/]\d{2,4}"),
    _rule("fraction", r"(?:\d{1,4}[- ])?\d{1,4}/\d{1,4}"),
    _rule("number", rf"[-+]?(?:{_NUMBER})"),
    _rule("word", _WORD),
    _rule("word", _THING),
    _rule("word", r"[A-Za-z0-9]+(?:-[A-Za-z]+)*(?:/[A-Za-z0-9]+(?:-[A-Za-z]+)*)+"),
    _rule("word", r"\d+[A-Za-z][A-Za-z0-9]*"),
    _rule("hyphenated", _HYPHENATED),
    _rule("initials", r"(?!I\. [A-Z])[A-Za-z](?:\.[A-Za-z])*\."),
    _rule("abbreviation", _ABBREVIATION),
    _rule("abbreviation", rf"(?i:{_any_of(BEFORE_A_NUMBER.split())})\.", r"\s*\d"),
    _rule("abbreviation", r"[A-Za-z]+\.", ","),
    _rule("company", r"[A-Z]+(?:&[A-Z]+)+"),
    _rule("dollar", r"[A-Z]*\$|#"),
    _rule("currency", "[£€¥¢¤]"),
    _rule("ellipsis", r"\.\.\.+|…|\.(?: \.){2,}"),
    _rule("dash", "---*|[–—]"),
    _rule("emoticon", r"[<>]?[:;=]'?-?(?:[()]|[DdPp](?![A-Za-z]))"),
    _rule("bracket", r"[()\[\]{}]"),
    _rule("quote", r"''|``|[\"“”«»`'‘’‹›]"),
    _rule("punctuation", r"[?!]+|[.,;:]|-|&(?:amp;)?|[%*/\\<>=+~^|@_°©®™§²³]"),
)

_STRAIGHT = str.maketrans("‘’‛", "'''")
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}


def _bracketed(token: str) -> list[str]:
    return ["".join(_BRACKETS.get(character, character) for character in token.lower())]


def _straight(token: str) -> list[str]:
    return [token.lower().translate(_STRAIGHT)]


REWRITTEN: dict[str, Callable[[str], list[str]]] = {
    "split": lambda token: split_word(token.lower()),
    "bracket": _bracketed,
    "emoticon": _bracketed,
    "quote": lambda token: ["'"],
    "dash": lambda token: ["--"],
    "ellipsis": lambda token: ["..."],
    "word": _straight,
    "reduced": _straight,
    "not": _straight,
    "elided": _straight,
    "currency": lambda token: [{"£": "#", "€": "$", "¢": "cents", "¤": "$"}.get(token, token)],
}
BY_FIRST_CHARACTER: dict[str, tuple[Rule, ...]] = {" ": (), "\t": ()}
OTHERWISE = RULES
