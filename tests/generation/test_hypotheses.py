from __future__ import annotations

import torch

from hoca.generation import Hypotheses

from .tiny import VOCABULARY


def test_texts_are_the_words_before_the_end_and_empty_places_are_left_out() -> None:
    words = torch.tensor([[[1, 4, 5, 2, 0], [1, 6, 2, 0, 0]], [[1, 5, 3, 6, 2], [1, 2, 2, 4, 0]]])
    logprob = torch.tensor([[-1.0, -2.0], [-0.5, float("-inf")]])
    found = Hypotheses(words, logprob, logprob)
    assert found.texts(VOCABULARY) == [["a dog", "runs"], ["dog <unk> runs"]]
