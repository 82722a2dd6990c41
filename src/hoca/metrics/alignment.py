"""METEOR's alignment of a candidate with a reference, in Python: the fallback, and the explanation, of `_meteor.c`.

A match joins words of the candidate with words of the reference by one of four matchers: the same word, the same stem,
a shared synonym set, paraphrases. Matches whose words no other match touches are certain. For the rest a beam search
walks over the reference; better is what matches more words (other matches than of the same word count half, rounded
down on either side, so a lone stem or synonym counts nothing), then fewer chunks, then a smaller distance.
Two habits of the original decide ties and are kept: the chunk that is still open is not counted yet, and it is not the
path that takes a match which pays that match's distance, but every path that considers it later and the one that skips.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hoca.metrics.language import Language

BEAM = 40
EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
WEIGHTS = (1.0, 0.6, 0.8, 0.6)
STATISTICS = 23


class Match(NamedTuple):
    """Words start … start + length - 1 of the candidate with words other … other + span - 1 of the reference."""

    start: int
    length: int
    other: int
    span: int
    module: int


class Phrase(NamedTuple):
    """A phrase that has paraphrases, where it stands in its sentence."""

    node: int
    start: int
    length: int


class _Path(NamedTuple):
    matched: int
    chunks: int
    distance: int
    last: int  # where the open chunk ends in the candidate, -1 if none is open
    next: int  # first word of the reference that is still undecided
    used1: int  # bit sets of words
    used2: int
    matches: tuple[Match, ...]


def phrases_of(words: Sequence[int], language: Language) -> list[Phrase]:
    """All phrases of a sentence that the paraphrase table knows."""
    found = []
    for start in range(len(words)):
        node = -1
        for end in range(start, len(words)):
            word = language.phrase_words[words[end]]
            node = language.child(node, word) if word >= 0 else -1
            if node < 0:
                break
            if language.partner_start[node] != language.partner_start[node + 1]:
                found.append(Phrase(node, start, end - start + 1))
    return found


def statistics(
    candidate: Sequence[int],
    reference: Sequence[int],
    candidate_phrases: Sequence[Phrase],
    reference_phrases: Sequence[Phrase],
    language: Language,
) -> list[float]:
    """Lengths, function words, matched words per matcher (content and function), chunks, matched words."""
    matches = _matches(candidate, reference, candidate_phrases, reference_phrases, language)
    chosen, chunks = _search(matches, len(candidate), len(reference))
    function = language.is_function
    stats = [0.0] * STATISTICS
    stats[:4] = [
        len(candidate),
        len(reference),
        sum(function[w] for w in candidate),
        sum(function[w] for w in reference),
    ]
    for match in chosen:
        part = 4 + 4 * match.module
        for word in candidate[match.start : match.start + match.length]:
            stats[part + 2 * function[word]] += 1
        for word in reference[match.other : match.other + match.span]:
            stats[part + 1 + 2 * function[word]] += 1
        stats[21] += match.length
        stats[22] += match.span
    stats[20] = chunks
    return stats


def _matches(
    candidate: Sequence[int],
    reference: Sequence[int],
    candidate_phrases: Sequence[Phrase],
    reference_phrases: Sequence[Phrase],
    language: Language,
) -> list[list[Match]]:
    """Matches by the word of the reference at which they start, in the order in which they are tried."""
    if candidate == reference:
        return [
            [Match(i, 1, j, 1, EXACT) for i, ours in enumerate(candidate) if ours == theirs]
            for j, theirs in enumerate(reference)
        ]
    stems, synsets = language.stems, language.synsets
    found: list[list[Match]] = []
    for j, theirs in enumerate(reference):
        different = [(i, ours) for i, ours in enumerate(candidate) if ours != theirs]
        meanings = set(synsets[theirs])
        found.append(
            [Match(i, 1, j, 1, EXACT) for i, ours in enumerate(candidate) if ours == theirs]
            + [Match(i, 1, j, 1, STEM) for i, ours in different if stems[ours] == stems[theirs]]
            + [Match(i, 1, j, 1, SYNONYM) for i, ours in different if not meanings.isdisjoint(synsets[ours])]
        )
    from_reference: list[Match] = []
    from_candidate: list[Match] = []
    for ours_phrase in candidate_phrases:
        partners = language.partners_of(ours_phrase.node)
        for theirs_phrase in reference_phrases:
            sides = partners.get(theirs_phrase.node, 0)
            match = Match(ours_phrase.start, ours_phrase.length, theirs_phrase.start, theirs_phrase.length, PARAPHRASE)
            if sides & 2:
                from_reference.append(match)
            if sides & 1:
                from_candidate.append(match)
    # the table names the paraphrases of a phrase in alphabetical order, which is the order of their words' numbers
    names = [language.phrase_words[word] for word in candidate]
    from_reference.sort(key=lambda match: (match.span, names[match.start : match.start + match.length], match.start))
    from_candidate.sort(key=lambda match: (match.start, match.length, match.span))
    for match in from_reference + from_candidate:
        found[match.other].append(match)
    return found


def _bits(start: int, length: int) -> int:
    return ((1 << length) - 1) << start


def _search(matches: list[list[Match]], words1: int, words2: int) -> tuple[tuple[Match, ...], int]:
    certain = _certain(matches, words1, words2)
    used1 = used2 = 0
    for match in certain.values():
        used1 |= _bits(match.start, match.length)
        used2 |= _bits(match.other, match.span)
    paths = [_Path(0, 0, 0, -1, 0, used1, used2, ())]
    for position in range(words2):
        grown: list[_Path] = []
        for path in _best(paths):
            if path.next > position:
                grown.append(path)
            elif position in certain:
                grown.append(_take(path, certain[position], path.distance))
            else:
                grown.extend(_choices(path, position, matches[position]))
        paths = grown
    closed = [path._replace(chunks=path.chunks + (path.last != -1)) for path in _best(paths)]
    winner = _best(closed)[0]
    return winner.matches, winner.chunks


def _certain(matches: list[list[Match]], words1: int, words2: int) -> dict[int, Match]:
    covered1, covered2 = [0] * words1, [0] * words2
    every = [match for starting in matches for match in starting]
    for match in every:
        for word in range(match.start, match.start + match.length):
            covered1[word] += 1
        for word in range(match.other, match.other + match.span):
            covered2[word] += 1
    return {
        match.other: match
        for match in every
        if set(covered1[match.start : match.start + match.length]) == {1}
        and set(covered2[match.other : match.other + match.span]) == {1}
    }


def _choices(path: _Path, position: int, matches: list[Match]) -> list[_Path]:
    grown = []
    distance = path.distance
    for match in matches:
        if path.used1 & _bits(match.start, match.length) or path.used2 & _bits(match.other, match.span):
            continue
        grown.append(_take(path, match, distance))
        distance += abs(match.start - match.other)
    chunks = path.chunks + (path.last != -1)
    grown.append(path._replace(chunks=chunks, distance=distance, last=-1, next=position + 1))
    return grown


def _take(path: _Path, match: Match, distance: int) -> _Path:
    return _Path(
        path.matched + (2 if match.module == EXACT else match.length // 2 + match.span // 2),
        path.chunks + (path.last not in (-1, match.start)),
        distance,
        match.start + match.length,
        match.other + match.span,
        path.used1 | _bits(match.start, match.length),
        path.used2 | _bits(match.other, match.span),
        (*path.matches, match),
    )


def _best(paths: list[_Path]) -> list[_Path]:
    return sorted(paths, key=lambda path: (-path.matched, path.chunks, path.distance))[:BEAM]
