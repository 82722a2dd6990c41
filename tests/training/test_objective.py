from __future__ import annotations

import pytest
import torch

from hoca.data import Vocabulary
from hoca.training.objective import caption_loss


def ragged_captions(size: int) -> torch.Tensor:
    """[B 2, R 2, L + 1 5]: captions of 3, 1 and 2 words, and one that a video lacks."""
    words = torch.full((2, 2, 5), Vocabulary.pad)
    for place, said in {(0, 0): [4, 5, 6], (0, 1): [7], (1, 0): [size - 1, 4]}.items():
        words[place][: len(said) + 2] = torch.tensor([Vocabulary.bos, *said, Vocabulary.eos])
    return words


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_sum_over_the_words_of_minus_log_p(smoothing: float) -> None:
    size = 9
    words = ragged_captions(size)
    logits = torch.randn(2, 2, 4, size, dtype=torch.float64)
    expected = 0.0
    for video in range(2):
        for caption in range(2):
            for place in range(4):
                target = int(words[video, caption, place + 1])
                if target == Vocabulary.pad:
                    continue
                logp = torch.log_softmax(logits[video, caption, place], 0)
                expected -= (1 - smoothing) * float(logp[target]) + smoothing * float(logp.mean())
    assert float(caption_loss(logits, words, Vocabulary.pad, smoothing)) == pytest.approx(expected, rel=1e-12)


def test_padding_adds_nothing_and_learns_nothing() -> None:
    words = torch.full((1, 2, 4), Vocabulary.pad)
    logits = torch.randn(1, 2, 3, 7, requires_grad=True)
    loss = caption_loss(logits, words, Vocabulary.pad)
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()
