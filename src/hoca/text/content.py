"""Words that say what is in a video, apart from those that hold a sentence together."""

from __future__ import annotations

from hoca.text.tokenizer import tokenize

STOP_WORDS = frozenset(
    """
    a about above across after again against ahead all along also am among an and another any anything are around as at
    away back be because been before behind being below beside besides between both but by can cannot could did do does
    doing done down during each either else etc every everything few for from further get gets getting go goes going got
    had has have having he her here hers herself him himself his how i if in inside instead into is it its itself just
    let lot lots made make makes making many may me might mine more most much must my near no nor not nothing now of off
    on once one ones only onto or other others our out outside over own per put puts putting quite rather same several
    shall she should show showing shown shows since so some someone something somewhere start starts such than that the
    their them themselves then there these they thing things this those though through throughout to together too toward
    towards two under until up upon us use used uses using various very via was we well were what when where whether
    which while who whom whose why will with within without would yet you your yourself
    """.split()  # noqa: SIM905, quotes around each word would hide them
)


def content_words(caption: str) -> list[str]:
    """The caption's words without the stop words, tokenised as the metrics do; a word comes as often as it is said."""
    return [word for word in tokenize(caption) if len(word) > 1 and word not in STOP_WORDS]
