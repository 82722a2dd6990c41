"""What counts as one Penn Treebank token: one named pattern per kind, the more special kinds first."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """`pattern` has a group `token`, what is taken, and a group `ahead`, what must follow; both count for the reach."""

    name: str
    pattern: re.Pattern[str]
    starts: str | None  # the ASCII characters that it can begin with, all if None


def _rule(name: str, token: str, ahead: str = "", starts: str | None = None) -> Rule:
    return Rule(name, re.compile(f"(?P<token>{token})(?P<ahead>{ahead})"), starts)


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

_LETTERS, _DIGITS, _QUOTES = string.ascii_letters, string.digits, "'‘’‛"
_WORDLIKE = _LETTERS + _DIGITS
_APOSTROPHE = f"[{_QUOTES}]"
_MARKS = (  # vowel signs and accents that belong to the letter before them
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962"
    "\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a75\u0a81-\u0ae3\u0b01-\u0b63\u0b82-\u0bd7\u0c00-\u0c63\u0c81-\u0ce3"
    "\u0d00-\u0d63\u0e31-\u0e3a\u0e47-\u0e4e"
)
_LETTER = r"[^\W\d_]"
_LETTER_OR_DIGIT = rf"(?:[^\W_]|[{_MARKS}])"
_WORD = rf"{_LETTER}{_LETTER_OR_DIGIT}*(?:[.!?]{_LETTER}{_LETTER_OR_DIGIT}*)*"
_THING = r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*"
_HYPHENATED = rf"[^\W_][\w.,]*(?:-{_LETTER_OR_DIGIT}+)+"
_SLASHED = r"[A-Za-z0-9]+(?:-[A-Za-z]+)*(?:/[A-Za-z0-9]+(?:-[A-Za-z]+)*)+"
_NUMBER = r"\d*(?:[.:,]\d+)+|\d+"
_REDUCED = "(?i:[msd]|re|ve|ll)"
_ENDS = "(?![A-Za-z])"
_TAG = r"<(?:/?[A-Za-z][A-Za-z0-9]*(?: +[a-z]+ *= *(?:\"[^\"]*\"|'[^']*'))* */?|[!?][A-Za-z-][^>]*)>"
_HOST = r"(?:[^ \"`'<>|.!?(){},_$-]+\.)+(?:com|org|net|edu|gov)(?:/[^ \"<>|(){}]+[^ \"<>|.!?(){},-])?"
_MAIL = r"<?[A-Za-z0-9][^ \"<>|(){}]*@[^ \"<>|(){}.]+(?:\.[^ \"<>|(){}.]+)*>?"
_FACE = r"[<>]?[:;=]'?-?(?:[()]|[DdPp](?![A-Za-z]))|:[]O\[{|\\](?!\w)|\(\^_\^\)|\^_\^|-_-"

RULES = (
    _rule("symbol", "[£€¢¤¼½¾⅓⅔⅛⅜⅝⅞]|&(?:amp|lt|gt);", starts="&"),
    _rule("split", f"(?i:{_any_of(SPLIT_AT)})", starts=_LETTERS),
    _rule("tag", _TAG, starts="<"),
    _rule("address", r"https?://[^ \"<>|(){}]+[^ \"<>|.!?(){},-]", starts="h"),
    _rule("address", _HOST),
    _rule("address", r"www\.(?:[^ \"`'<>|.!?(){},-]+\.)+[a-zA-Z]{2,4}", starts="w"),
    _rule("mail", _MAIL, starts="<" + _WORDLIKE),
    _rule("handle", r"@[A-Za-z_]\w*|#[A-Za-z]+", starts="@#"),
    _rule("not", rf"(?i:n){_APOSTROPHE}(?i:t)", starts="nN"),
    _rule("word", rf"{_WORD}?", rf"(?i:n){_APOSTROPHE}(?i:t)", starts=_LETTERS),
    _rule("word", _WORD, rf"{_APOSTROPHE}{_REDUCED}{_ENDS}", starts=_LETTERS),
    _rule("reduced", rf"{_APOSTROPHE}{_REDUCED}{_ENDS}", starts=_QUOTES),
    _rule("reduced", rf"{_APOSTROPHE}(?i:em|till?|cause|n{_APOSTROPHE}|n(?![\w.]))", starts=_QUOTES),
    _rule("reduced", rf"{_APOSTROPHE}(?i:t)", "(?i:is|was)", starts=_QUOTES),
    _rule("year", rf"{_APOSTROPHE}\d\ds?(?![\w\"])", starts=_QUOTES),
    _rule("elided", rf"[dDlLoO]{_APOSTROPHE}{_LETTER_OR_DIGIT}{{2,}}|n{_APOSTROPHE}{_LETTER}{{2,}}", starts="dDlLoOn"),
    _rule(
        "elided",
        rf"[A-HJ-XZ]{_APOSTROPHE}{_LETTER}{{2,}}|{_LETTER}+[aeiouy]{_APOSTROPHE}[aeiou]{_LETTER}+",
        starts=_LETTERS,
    ),
    _rule("elided", rf"(?i:c{_APOSTROPHE}mon|cap{_APOSTROPHE}n)", starts="cC"),
    _rule("elided", rf"(?i:[djly]|ol){_APOSTROPHE}", _LETTER, starts="dDjJlLyYoO"),
    _rule("date", r"\d{1,2}[-/]\d{1,2}[-/]\d{2,4}", starts=_DIGITS),
    _rule("fraction", r"(?:\d{1,4}[- ])?\d{1,4}/\d{1,4}", starts=_DIGITS),
    _rule("telephone", r"\(\d{3}\) ?\d{3}[- ]?\d{4}", starts="("),
    _rule("number", rf"[-+]?(?:{_NUMBER})", starts="-+.:," + _DIGITS),
    _rule("word", _WORD),
    _rule("word", _THING, starts=_WORDLIKE),
    _rule("word", _SLASHED, starts=_WORDLIKE),
    _rule("word", r"\d+[A-Za-z][A-Za-z0-9]*", starts=_DIGITS),
    _rule("word", r"(?i:c\+\+|c#)", starts="cC"),
    _rule("hyphenated", _HYPHENATED),
    _rule("initials", r"(?!I\. [A-Z])[A-Za-z](?:\.[A-Za-z])*\.", starts=_LETTERS),
    _rule("abbreviation", rf"(?i:ph\.d\.)|{_ABBREVIATION}", starts=_LETTERS),
    _rule("abbreviation", rf"(?i:{_any_of(BEFORE_A_NUMBER.split())})\.", r"\s*\d", starts=_LETTERS),
    _rule("abbreviation", r"[A-Za-z]+\.", ",", starts=_LETTERS),
    _rule("company", r"[A-Z]+(?:&[A-Z]+)+", starts=_LETTERS),
    _rule("dollar", r"[A-Z]*\$|#", starts="$#" + _LETTERS),
    _rule("ellipsis", r"\.\.\.+|…|\.(?: \.){2,}", starts="."),
    _rule("dash", "---*|[–—]", starts="-"),
    _rule("emoticon", _FACE, starts="<>:;=(^-"),
    _rule("bracket", r"[()\[\]{}]", starts="()[]{}"),
    _rule("quote", r"''|``|[\"“”«»`'‘’‹›]", starts="\"`'"),
    _rule(
        "punctuation", r"[?!]+|[.,;:]|-|_+|[&%*/\\<>=+~^|@¥°©®™§²³]", starts="".join(sorted(set(string.punctuation)))
    ),
)

_STRAIGHT = str.maketrans("‘’‛", "'''")
_FRACTIONS = {
    "¼": "1/4",
    "½": "1/2",
    "¾": "3/4",
    "⅓": "1/3",
    "⅔": "2/3",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}
_SYMBOLS = {"£": "#", "€": "$", "¢": "cents", "¤": "$", "&amp;": "&", "&lt;": "<", "&gt;": ">", **_FRACTIONS}
NO_BREAK = "\u00a0"  # stands for a space inside one token
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}


def _bracketed(token: str, brackets: str = "()[]{}") -> list[str]:
    return ["".join(_BRACKETS[letter] if letter in brackets else letter for letter in token.lower())]


def _straight(token: str) -> list[str]:
    return [token.lower().translate(_STRAIGHT)]


REWRITTEN: dict[str, Callable[[str], list[str]]] = {
    "split": lambda token: split_word(token.lower()),
    "bracket": _bracketed,
    "emoticon": lambda token: _bracketed(token, "()"),
    "quote": lambda token: ["'"],
    "dash": lambda token: ["--"],
    "ellipsis": lambda token: ["..."],
    "word": _straight,
    "reduced": _straight,
    "not": _straight,
    "elided": _straight,
    "symbol": lambda token: [_SYMBOLS[token]],
    "fraction": lambda token: [token.replace(" ", NO_BREAK)],
    "telephone": lambda token: _bracketed(token.replace(" ", NO_BREAK)),
    "tag": lambda token: [token.lower().replace(" ", NO_BREAK)],
}
BY_FIRST_CHARACTER: dict[str, tuple[Rule, ...]] = {
    character: tuple(rule for rule in RULES if rule.starts is None or character in rule.starts)
    for character in map(chr, range(33, 127))
} | {" ": (), "\t": ()}
OTHERWISE = RULES
