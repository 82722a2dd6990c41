"""Attention against moments that are known."""

from __future__ import annotations

import pytest
import torch

from hoca.explain.truth import Look, looks
from hoca.models import Explanation


def test_the_words_chosen_are_measured_and_no_others() -> None:
    even, sharp = [0.25] * 4, [0.0, 1.0, 0.0, 0.0]
    alpha = torch.tensor([[[even, sharp]], [[sharp, even]]])  # two videos, one caption of two words each
    beta = torch.tensor([[[0.2, 0.6]], [[0.8, 0.4]]])
    group = ("image", "audio")
    explanation = Explanation({"image": alpha}, {"image": beta}, {"image": {group: torch.full_like(alpha, 0.25)}})
    told = {"image": torch.tensor([[0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 1.0, 1.0]])}
    others = {"image": torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])}
    chosen = torch.tensor([[[False, True]], [[True, False]]])
    merged, of_group = looks(explanation, told, others, chosen)
    share = pytest.approx
    assert merged == Look("image", (), 2, told=share(0.5), others=share(0.5), even=share(0.4375), beta=share(0.7))
    assert of_group.group == group
    assert of_group.told == pytest.approx(of_group.even)


def test_videos_that_a_word_is_chosen_of_twice_count_twice() -> None:
    alpha = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]], [[[0.0, 1.0], [0.0, 1.0]]]])
    told = {"image": torch.tensor([[1.0, 0.0], [1.0, 0.0]])}
    chosen = torch.tensor([[[True, True]], [[True, False]]])
    explanation = Explanation({"image": alpha}, {"image": torch.ones(2, 1, 2)})
    (look,) = looks(explanation, told, told, chosen)
    assert look.words == 3
    assert look.told == pytest.approx(2 / 3)
