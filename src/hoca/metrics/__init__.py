"""Caption metrics, exact and without Java: BLEU, ROUGE-L, METEOR and CIDEr, and the tokenizer under them."""

from __future__ import annotations

from hoca.metrics.evaluator import ALL, Evaluator, Scores, evaluate
from hoca.metrics.tokenizer import tokenize

__all__ = ["ALL", "Evaluator", "Scores", "evaluate", "tokenize"]
