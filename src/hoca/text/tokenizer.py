"""Penn Treebank tokens of a caption, lower case and without punctuation, as coco-caption makes them.

The rules describe what the Stanford PTB tokenizer does, as seen from outside: at every position the rule that reaches
farthest wins (what it only looks ahead at counts too), the earlier one on a tie, and a character that no rule knows is
dropped. Most captions are plain words, for which a check with one regular expression replaces all of that.
"""

from __future__ import annotations

import re

from hoca.text.tokenizer_rules import BY_FIRST_CHARACTER, OTHERWISE, REWRITTEN, SPLIT_WORDS, split_word

PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])
PLAIN = re.compile(r"[a-zA-Z ]*")
PLAIN_WORD = re.compile(r"[a-zA-Z]+(?= |$)")  # no rule reaches beyond the space after it


def tokenize(caption: str) -> list[str]:
    """The words of `caption` as every metric here counts them."""
    if PLAIN.fullmatch(caption):
        words = caption.lower().split()
        if SPLIT_WORDS.isdisjoint(words):
            return words
        return [part for word in words for part in split_word(word)]
    return [token for token in _treebank_tokens(caption) if token not in PUNCTUATION]


def _treebank_tokens(text: str) -> list[str]:
    text = text.replace("\n", " ")
    tokens: list[str] = []
    position = 0
    while position < len(text):
        word = PLAIN_WORD.match(text, position)
        if word:
            tokens.extend(split_word(word.group().lower()))
            position = word.end()
            continue
        rules = BY_FIRST_CHARACTER.get(text[position], OTHERWISE)
        reach, end, kind = 0, position + 1, ""
        for rule in rules:
            match = rule.pattern.match(text, position)
            if match and match.end("ahead") > reach:
                reach, end, kind = match.end("ahead"), match.end("token"), rule.name
        token = text[position:end]
        position = end
        if kind:
            tokens.extend(REWRITTEN[kind](token) if kind in REWRITTEN else [token.lower()])
    return tokens
