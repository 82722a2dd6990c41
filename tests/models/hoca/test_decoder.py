from __future__ import annotations

import pytest
import torch

from ..tiny import SIZES, VOCABULARY, captioner


def test_found_word_vectors_are_kept_and_the_others_have_their_spread() -> None:
    model = captioner(embedding=400).float()
    vectors = 0.3 * torch.randn(len(VOCABULARY), 400)
    found = torch.zeros(len(VOCABULARY), dtype=torch.bool)
    found[[4, 6, 9]] = True
    model.set_word_vectors(vectors, found)
    weight = model.decoder.embedding.weight
    assert model.embedding is model.decoder.embedding
    assert torch.equal(weight[found], vectors[found])
    assert weight[~found].std().item() == pytest.approx(0.3, rel=0.1)
    assert weight[~found].mean().item() == pytest.approx(0.0, abs=0.03)
    assert (weight[~found] - vectors[~found]).abs().mean() > 0.1
    assert weight.requires_grad


def test_without_any_found_word_all_are_drawn() -> None:
    model = captioner()
    model.set_word_vectors(torch.zeros(len(VOCABULARY), 7), torch.zeros(len(VOCABULARY), dtype=torch.bool))
    assert model.embedding.weight.isfinite().all()
    assert model.embedding.weight.std() > 0.5


def test_dropout_is_on_the_word_vectors_and_on_the_output() -> None:
    decoder = captioner(dropout=0.4).train().decoder
    dropped: list[torch.Tensor] = []
    decoder.dropout.register_forward_hook(lambda _, __, out: dropped.append(out))
    zeros = torch.zeros(2, 3, SIZES["hidden"]).double()
    hidden, _ = decoder(torch.randint(len(VOCABULARY), (2, 3, 6)), (zeros, zeros))
    vectors, output = dropped
    assert vectors.shape == (2, 3, 6, SIZES["embedding"])
    assert torch.equal(hidden.flatten(0, 1), output)


def test_the_state_goes_on_where_it_ended() -> None:
    decoder = captioner().decoder
    words = torch.randint(len(VOCABULARY), (2, 3, 6))
    zeros = torch.zeros(2, 3, SIZES["hidden"]).double()
    together, end = decoder(words, (zeros, zeros))
    first, state = decoder(words[:, :, :2], (zeros, zeros))
    second, state = decoder(words[:, :, 2:], state)
    torch.testing.assert_close(torch.cat([first, second], dim=2), together)
    torch.testing.assert_close(state, end)
