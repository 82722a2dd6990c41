"""Caption metrics, exact and without Java: BLEU, ROUGE-L, METEOR and CIDEr, and the tokenizer under them."""

from __future__ import annotations

from hoca.metrics.captions import read_captions, score_files, write_captions
from hoca.metrics.evaluator import ALL, Evaluator, Scores, evaluate
from hoca.metrics.reward import CiderReward, MeteorReward
from hoca.text.tokenizer import tokenize

__all__ = [
    "ALL",
    "CiderReward",
    "Evaluator",
    "MeteorReward",
    "Scores",
    "evaluate",
    "read_captions",
    "score_files",
    "tokenize",
    "write_captions",
]
