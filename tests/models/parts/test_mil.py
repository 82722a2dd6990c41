"""A noisy OR: right where it can be computed naively, finite where it cannot."""

from __future__ import annotations

import pytest
import torch

from hoca.models.parts.mil import MilHead, misses, noisy_or_loss, per_caption, probability, starting_score


def found(scores: torch.Tensor) -> torch.Tensor:
    """P of bags without padding."""
    return probability(misses(scores, torch.ones(scores.shape[:2], dtype=torch.bool)))


def test_the_probability_of_one_instance_is_its_own() -> None:
    scores = torch.randn(3, 1, 4).double()
    torch.testing.assert_close(found(scores), torch.sigmoid(scores[:, 0]))


def test_one_more_instance_never_makes_a_word_less_likely() -> None:
    scores = 3 * torch.randn(5, 6, 4).double()
    for count in range(1, 6):
        assert (found(scores[:, : count + 1]) >= found(scores[:, :count])).all()


def test_it_is_one_minus_the_product_of_the_misses_and_so_is_its_loss() -> None:
    scores, labels = 2 * torch.randn(5, 6, 4).double(), torch.randint(2, (5, 4)).double()
    real = torch.arange(6) < torch.tensor([6, 3, 1, 2, 5])[:, None]
    naive = 1 - torch.where(real[..., None], 1 - torch.sigmoid(scores), 1.0).prod(1)
    torch.testing.assert_close(probability(misses(scores, real)), naive)
    expected = torch.nn.functional.binary_cross_entropy(naive, labels, reduction="none")
    torch.testing.assert_close(noisy_or_loss(misses(scores, real), labels), expected)


@pytest.mark.parametrize("score", [-200.0, -50.0, 0.0, 50.0, 200.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_loss_and_gradient_are_finite_at_any_score(score: float, label: float) -> None:
    scores = torch.full((1, 8, 1), score, requires_grad=True)
    loss = noisy_or_loss(misses(scores, torch.ones(1, 8, dtype=torch.bool)), torch.full((1, 1), label))
    loss.sum().backward()
    assert loss.isfinite().all()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_instances_that_are_not_real_count_nothing_even_at_high_scores() -> None:
    scores = torch.randn(1, 4, 3)
    padded = torch.cat([scores, torch.full((1, 2, 3), 40.0)], dim=1)
    real = torch.arange(6)[None] < 4
    torch.testing.assert_close(misses(padded, real), misses(scores, real[:, :4]))


def test_a_bag_begins_with_the_frequency_of_each_word() -> None:
    frequency = torch.tensor([0.5, 0.02, 0.9])
    bag = starting_score(frequency, 20).expand(1, 20, 3)
    torch.testing.assert_close(found(bag)[0], frequency)
    head = MilHead({"image": 4}, 3, {"image": 20})
    head.begin(frequency)
    torch.testing.assert_close(found(head("image", torch.zeros(1, 20, 4)))[0].detach(), frequency)


def test_a_loss_of_videos_counts_once_for_each_caption() -> None:
    words = torch.tensor([[[1, 5, 2], [1, 2, 0]], [[1, 5, 2], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]])
    assert float(per_caption(torch.tensor([10.0, 1.0, 100.0]), words, pad=0)) == 21
