"""Word vectors from a file: word2vec binary or text, GloVe text, npz; the content tells which."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hoca.data.vector_files import open_vectors
from hoca.errors import UserError

log = logging.getLogger("hoca.data")

EXACT, LOWER, ANY_CASE = 3, 2, 1  # how well a word of the file fits a wanted one; 0: not at all


def load_vectors(path: Path | str, words: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Vectors [n, E] float32 of `words` and which of them were found, [n] bool; a word not found is a row of zeros.

    The file is streamed: only the rows of `words` are kept. A word that the file lacks takes the vector of its lower
    case ("Dog" → "dog"), and failing that of the first word that differs in case alone ("english" → "English"):
    captions are lower case, some vector files are not.
    """
    wanted: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        wanted.setdefault(word.lower(), []).append(place)
    with open_vectors(Path(path)) as file:
        vectors = np.zeros((len(words), file.width), dtype=np.float32)
        fit = np.zeros(len(words), dtype=np.int8)
        for word, read in file:
            for place in wanted.get(word.lower(), ()):
                found = EXACT if word == words[place] else LOWER if word == words[place].lower() else ANY_CASE
                if found > fit[place]:
                    vectors[place], fit[place] = read(), found
    return torch.from_numpy(vectors), torch.from_numpy(fit > 0)


def category_vectors(names: Sequence[str], path: Path | str) -> Tensor:
    """One vector per category, [C, E]: the mean over the words of its name ("sports/actions": sports, actions).

    Words that the file lacks are left out; a name of which it has none gets zeros, and a line in the log.
    """
    parts = [[word for word in re.split(r"[/\s]+", name) if word] for name in names]
    words = list(_once(word for each in parts for word in each))
    vectors, found = load_vectors(path, words)
    place = {word: number for number, word in enumerate(words) if found[number]}
    if names and not place:
        raise UserError(f"{path} has none of the words {', '.join(words)}: give a file of English word vectors")
    means = torch.zeros(len(names), vectors.shape[1])
    for number, (name, each) in enumerate(zip(names, parts, strict=True)):
        rows = [place[word] for word in each if word in place]
        if rows:
            means[number] = vectors[rows].mean(dim=0)
        else:
            log.warning("category %r: none of its words is in %s; its vector is zero", name, path)
    return means


def _once(words: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(words)
