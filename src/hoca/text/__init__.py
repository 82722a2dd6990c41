"""Words: how captions are cut into them, and their numbers. No torch and no files here."""

from hoca.text.tokenizer import tokenize
from hoca.text.vocabulary import SPECIALS, Vocabulary

__all__ = ["SPECIALS", "Vocabulary", "tokenize"]
