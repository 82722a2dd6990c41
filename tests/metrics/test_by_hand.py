"""Ten captions whose scores were worked out on paper, from the metrics' definitions.

Videos share no words, but for `dancers`, so that nearly every n-gram is in one video of ten: its weight in CIDEr-D,
ln(10/1), is then the same for all and cancels out of the cosines, which are those of plain counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, exp, log, prod, sqrt

import pytest

from hoca.metrics import evaluate

NAMES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr")
TWO, ONE = log(10 / 2), log(10 / 1)  # weights of an n-gram that two videos have, or one


@dataclass(frozen=True)
class Row:
    candidate: str
    references: tuple[str, ...]
    matched: tuple[int, int, int, int]  # n-grams of the candidate that a reference has, as often as it has them at most
    nearest: int  # words of the reference whose length is nearest
    precision: float  # of the longest common subsequence: over the candidate's words, the best reference
    recall: float  # the same over the reference's words
    cosines: tuple[tuple[float, float, float, float], ...]  # of each reference, of 1- to 4-grams
    gaps: tuple[int, ...]  # how many bigrams the candidate has more or less than each reference
    scores: tuple[float, ...]  # what all of that comes to, in the order of NAMES

    @property
    def words(self) -> int:
        return len(self.candidate.split())

    @property
    def guessed(self) -> tuple[int, ...]:
        """N-grams of the candidate."""
        return tuple(max(self.words - n, 0) for n in range(4))


ROWS = {
    "the same": Row(
        *("one red ball rolls", ("one red ball rolls",)),
        matched=(4, 3, 2, 1),
        nearest=4,
        precision=4 / 4,
        recall=4 / 4,
        cosines=((1, 1, 1, 1),),
        gaps=(0,),
        scores=(1, 1, 1, 1, 1, 10),
    ),
    # References of 4 and 6 words are equally near to 5: the shorter one counts, and nothing is taken off.
    "a tie": Row(
        *("two cats sleep here now", ("two cats sleep here", "two cats sleep here all day")),
        matched=(4, 3, 2, 1),
        nearest=4,
        precision=4 / 5,
        recall=4 / 4,  # in the first reference, 4 / 6 in the second
        cosines=(
            (4 / sqrt(5 * 4), 3 / sqrt(4 * 3), 2 / sqrt(3 * 2), 1 / sqrt(2 * 1)),
            (4 / sqrt(5 * 6), 3 / sqrt(4 * 5), 2 / sqrt(3 * 4), 1 / sqrt(2 * 3)),
        ),
        gaps=(1, 1),
        scores=(0.8, 0.774597, 0.736806, 0.668740, 0.907063, 6.990694),
    ),
    # 3 words for 6: BLEU is multiplied by exp(1 - 6/3); there are no 4-grams, and 1e-15 / 1e-9 stands for 0 / 0.
    "too short": Row(
        *("three birds fly", ("three birds fly over green hills",)),
        matched=(3, 2, 1, 0),
        nearest=6,
        precision=3 / 3,
        recall=3 / 6,
        cosines=((3 / sqrt(3 * 6), 2 / sqrt(2 * 5), 1 / sqrt(1 * 4), 0),),
        gaps=(3,),
        scores=(0.367879, 0.367879, 0.367879, 0.011633, 0.628866, 4.058520),
    ),
    # The reference has two ducks and one pair of them: of the candidate's four and three, no more count.
    # Words: min(4, 2)·2 over the lengths 4 of (4) and √5 of (2, 1); pairs: min(3, 1)·1 over 3 of (3) and √2 of (1, 1).
    "repeated words": Row(
        *("duck duck duck duck", ("duck duck swims",)),
        matched=(2, 1, 0, 0),
        nearest=3,
        precision=2 / 4,
        recall=2 / 3,
        cosines=((4 / (4 * sqrt(5)), 1 / (3 * sqrt(2)), 0, 0),),
        gaps=(1,),
        scores=(0.5, 0.408248, 0.000004, 0, 0.586538, 1.683741),
    ),
    # 7 bigrams for 1: CIDEr-D is multiplied by exp(-6²/(2·6²)), the root of 1/e.
    "too long": Row(
        *("five boats sail on calm blue water today", ("five boats",)),
        matched=(2, 1, 0, 0),
        nearest=2,
        precision=2 / 8,
        recall=2 / 2,
        cosines=((2 / sqrt(8 * 2), 1 / sqrt(7 * 1), 0, 0),),
        gaps=(6,),
        scores=(0.25, 0.188982, 0.000002, 0, 0.448529, 1.331281),
    ),
    # `girl kicks hard` is the longest common subsequence: it may leave words out, but not turn them round.
    "another order": Row(
        *("football girl kicks hard", ("girl kicks yellow football hard",)),
        matched=(4, 1, 0, 0),
        nearest=5,
        precision=3 / 4,
        recall=3 / 5,
        cosines=((4 / sqrt(4 * 5), 1 / sqrt(3 * 4), 0, 0),),
        gaps=(1,),
        scores=(0.778801, 0.449641, 0.000004, 0, 0.653571, 2.916960),
    ),
    # ROUGE-L takes the precision from one reference (4 of 4) and the recall from the other (2 of 2).
    "the best of two": Row(
        *("chef cuts fresh onions", ("chef cuts", "chef slowly cuts seven fresh onions with care")),
        matched=(4, 2, 0, 0),
        nearest=2,
        precision=4 / 4,
        recall=2 / 2,
        cosines=((2 / sqrt(4 * 2), 1 / sqrt(3 * 1), 0, 0), (4 / sqrt(4 * 8), 1 / sqrt(3 * 7), 0, 0)),
        gaps=(2, 4),
        scores=(1, 0.816497, 0.000007, 0, 1, 2.444983),
    ),
    "nothing right": Row(
        *("xylophone", ("a slow freight train leaves the empty station",)),
        matched=(0, 0, 0, 0),
        nearest=8,
        precision=0,
        recall=0,
        cosines=((0, 0, 0, 0),),
        gaps=(7,),
        scores=(0, 0, 0, 0, 0, 0),
    ),
    # A word that two videos have weighs less: ln 5, where all others weigh ln 10.
    "a common word": Row(
        *("dancers whirl", ("dancers whirl tonight",)),
        matched=(2, 1, 0, 0),
        nearest=3,
        precision=2 / 2,
        recall=2 / 3,
        cosines=((sqrt((TWO**2 + ONE**2) / (TWO**2 + 2 * ONE**2)), 1 / sqrt(1 * 2), 0, 0),),
        gaps=(1,),
        scores=(0.606531, 0.606531, 0.006065, 0.000607, 0.772152, 3.650237),
    ),
    # Three words have no 4-gram: even the same sentence gets three quarters of ten.
    "three words": Row(
        *("dancers clap loudly", ("dancers clap loudly",)),
        matched=(3, 2, 1, 0),
        nearest=3,
        precision=3 / 3,
        recall=3 / 3,
        cosines=((1, 1, 1, 0),),
        gaps=(0,),
        scores=(1, 1, 1, 0.031623, 1, 7.5),
    ),
}


def bleu(matched: tuple[int, ...], guessed: tuple[int, ...], words: int, nearest: int) -> list[float]:
    """The geometric means of the precisions, times exp(1 - nearest/words) for what is too short."""
    precisions = [(right + 1e-15) / (all_of_them + 1e-9) for right, all_of_them in zip(matched, guessed, strict=True)]
    brevity = exp(1 - nearest / words) if words < nearest else 1.0
    return [brevity * prod(precisions[:n]) ** (1 / n) for n in (1, 2, 3, 4)]


def rouge(row: Row) -> float:
    """(1 + β²)·P·R / (R + β²·P) with β = 1.2, so that recall counts more."""
    if not row.precision:
        return 0.0
    return 2.44 * row.precision * row.recall / (row.recall + 1.44 * row.precision)


def cider(row: Row) -> float:
    """Ten times the mean over the references and the four orders, each reference times exp(-gap²/(2·6²))."""
    each = [sum(cosines) / 4 * exp(-(gap**2) / 72) for cosines, gap in zip(row.cosines, row.gaps, strict=True)]
    return 10 * sum(each) / len(each)


@pytest.mark.parametrize("name", ROWS)
def test_scores_are_those_worked_out_by_hand(name: str) -> None:
    row = ROWS[name]
    by_hand = [*bleu(row.matched, row.guessed, row.words, row.nearest), rouge(row), cider(row)]
    assert by_hand == pytest.approx(row.scores, abs=6e-7)
    found = evaluate(
        {name: row.references for name, row in ROWS.items()},
        {name: row.candidate for name, row in ROWS.items()},
        NAMES,
    ).per_video[name]
    assert [found[metric] for metric in NAMES] == pytest.approx(by_hand, rel=1e-6, abs=1e-9)


def test_the_corpus_has_one_bleu_and_the_mean_of_the_others() -> None:
    """BLEU of the sums: 38 words for 40 of the nearest references, 28 of them right, and so on."""
    found = evaluate(
        {name: row.references for name, row in ROWS.items()},
        {name: row.candidate for name, row in ROWS.items()},
        NAMES,
    ).corpus
    expected = [
        e ** (-1 / 19) * 28 / 38,
        e ** (-1 / 19) * (28 / 38 * 16 / 28) ** (1 / 2),
        e ** (-1 / 19) * (28 / 38 * 16 / 28 * 6 / 19) ** (1 / 3),
        e ** (-1 / 19) * (28 / 38 * 16 / 28 * 6 / 19 * 2 / 11) ** (1 / 4),
        sum(rouge(row) for row in ROWS.values()) / 10,
        sum(cider(row) for row in ROWS.values()) / 10,
    ]
    assert [found[metric] for metric in NAMES] == pytest.approx(expected, rel=1e-6)
