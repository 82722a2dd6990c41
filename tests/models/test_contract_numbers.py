"""What every captioner must fulfil as to its probabilities: they sum to one, and bf16 stays close to them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hoca.generation.step import next_word
from hoca.models import CaptionModel, create

from .test_contract import (
    REFERENCES,
    all_losses,
    captioner,
    every_length,
    every_model,
    sizes,
    whole_captions,
)
from .tiny import VOCABULARY, WIDTHS, Lengths, captions, videos


@every_length
@every_model
def test_the_searchs_probabilities_of_the_next_word_sum_to_one_after_every_word(name: str, given: Lengths) -> None:
    """They are the softmax of the scores of teacher forcing, over all words, in float64 and in float32."""
    for dtype in (torch.float64, torch.float32):
        model, words = captioner(name).to(dtype), captions()
        memory = model.encode({m: x.to(dtype) for m, x in videos().items()}, given)
        expected = model.decode(memory, words, model.begin(memory, 2)).logits.log_softmax(-1)
        state = model.begin(memory, 2)
        for place in range(words.shape[2]):
            found, state = next_word(model, memory, words[:, :, place], state)
            assert found.shape == (3, 2, len(VOCABULARY))
            assert found.max() <= 0
            torch.testing.assert_close(found.exp().sum(-1), torch.ones(3, 2, dtype=dtype))
            torch.testing.assert_close(found, expected[:, :, place], rtol=1e-4, atol=1e-5)


def differences(model: CaptionModel, given: Lengths, words: Tensor) -> tuple[Tensor, Tensor]:
    """How far log-probabilities in bf16 are from those in float32: of the words that are said, and of all words."""
    features = {m: x.float() for m, x in videos().items()}
    with torch.no_grad():
        expected = model(features, given, words[:, :, :-1]).log_softmax(-1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = model(features, given, words[:, :, :-1])
    far = (low.float().log_softmax(-1) - expected).abs()  # [B, R, L, V]
    said = words[:, :, 1:]
    return far.gather(3, said[..., None]).squeeze(3)[said != VOCABULARY.pad], far


@pytest.mark.parametrize("normalise", [False, True], ids=["as they are", "normalised"])
@every_length
@every_model
def test_log_probabilities_of_a_new_model_in_bf16_are_within_a_hundredth(
    name: str, given: Lengths, normalise: bool
) -> None:
    torch.manual_seed(0)
    model = create(name, WIDTHS, VOCABULARY, **sizes(name, normalise=normalise)).eval()
    model.prepare(REFERENCES)
    _, far = differences(model, given, whole_captions())
    assert far.max() < 1e-2


@every_length
@every_model
def test_bf16_stays_close_to_float32_with_large_weights(name: str, given: Lengths) -> None:
    """Half a unit is added to every weight, many times what it begins with: eight bits of each product are kept, so a
    hundredth holds for the mean of the words that are said; no word is further off than five hundredths."""
    model = captioner(name).float()
    said, far = differences(model, given, whole_captions())
    assert said.mean() < 1e-2
    assert far.max() < 5e-2


@every_length
@every_model
def test_gradients_in_bf16_are_finite(name: str, given: Lengths) -> None:
    model, features = captioner(name).float(), {m: x.float() for m, x in videos().items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        all_losses(model, features, given, whole_captions()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
