"""Words: how captions are cut into them, which of them have content, and their numbers. No torch and no files here."""

from hoca.text.content import content_words
from hoca.text.tokenizer import tokenize
from hoca.text.vocabulary import SPECIALS, Vocabulary

__all__ = ["SPECIALS", "Vocabulary", "content_words", "tokenize"]
