from __future__ import annotations

import pytest
import torch

from .tiny import SIZES, VOCABULARY, captioner


def test_found_word_vectors_are_kept_and_the_others_have_their_spread() -> None:
    decoder = captioner(embedding=400).float().decoder
    vectors = 0.3 * torch.randn(len(VOCABULARY), 400)
    found = torch.zeros(len(VOCABULARY), dtype=torch.bool)
    found[[4, 6, 9]] = True
    decoder.set_word_vectors(vectors, found)
    weight = decoder.embedding.weight
    assert torch.equal(weight[found], vectors[found])
    assert weight[~found].std().item() == pytest.approx(0.3, rel=0.1)
    assert weight[~found].mean().item() == pytest.approx(0.0, abs=0.03)
    assert (weight[~found] - vectors[~found]).abs().mean() > 0.1
    assert weight.requires_grad


def test_without_any_found_word_all_are_drawn() -> None:
    decoder = captioner().decoder
    decoder.set_word_vectors(torch.zeros(len(VOCABULARY), 7), torch.zeros(len(VOCABULARY), dtype=torch.bool))
    assert decoder.embedding.weight.isfinite().all()
    assert decoder.embedding.weight.std() > 0.5


def test_the_state_goes_on_where_it_ended() -> None:
    decoder = captioner().decoder
    words = torch.randint(len(VOCABULARY), (2, 3, 6))
    zeros = torch.zeros(2, 3, SIZES["hidden"]).double()
    together, end = decoder(words, (zeros, zeros))
    first, state = decoder(words[:, :, :2], (zeros, zeros))
    second, state = decoder(words[:, :, 2:], state)
    torch.testing.assert_close(torch.cat([first, second], dim=2), together)
    torch.testing.assert_close(state, end)
