"""The words' scores: in full, and tied to the word vectors."""

from __future__ import annotations

import pytest
import torch

from hoca.models import create
from hoca.models.parts.output import PadRows

from ..tiny import SIZES, VOCABULARY, WIDTHS, captioner, captions, videos


def test_tied_scores_follow_the_word_vectors() -> None:
    model, given, said = captioner(tie_words=True), videos(), captions()
    before = model(given, {}, said)
    with torch.no_grad():
        model.decoder.embedding.weight[VOCABULARY["dog"]] = model.decoder.embedding.weight[VOCABULARY["man"]]
        model.output.bias[VOCABULARY["dog"]] = model.output.bias[VOCABULARY["man"]]
    after = model(given, {}, torch.full_like(said, VOCABULARY.bos))
    torch.testing.assert_close(after[..., VOCABULARY["dog"]], after[..., VOCABULARY["man"]])
    assert before.shape == (*said.shape, len(VOCABULARY))


def test_tied_scores_are_products_over_the_root_of_the_width() -> None:
    output = captioner(tie_words=True).output
    hidden, words = torch.randn(2, 3, SIZES["hidden"]).double(), torch.randn(len(VOCABULARY), 7).double()
    narrow = torch.nn.functional.pad(hidden, (0, 6 * SIZES["hidden"])) @ output.narrow.weight.T
    torch.testing.assert_close(output(hidden, {}, words), narrow @ words.T / 7**0.5 + output.bias)


def test_a_small_output_layer_is_small() -> None:
    def count(**options: object) -> int:
        model = create("l-hoca-ubt", WIDTHS, VOCABULARY, **SIZES | options)
        return sum(parameter.numel() for parameter in model.output.parameters())

    inputs = SIZES["hidden"] * 7
    assert count() == (inputs + 1) * len(VOCABULARY)
    assert count(tie_words=True) == SIZES["embedding"] * inputs + len(VOCABULARY)


@pytest.mark.parametrize("shape", [(5, 3), (5,)])
def test_more_rows_are_zeros_and_take_no_gradient(shape: tuple[int, ...]) -> None:
    given = torch.randn(shape, requires_grad=True)
    padded = PadRows.apply(given, 3, torch.bfloat16)
    torch.testing.assert_close(padded, torch.cat([given, torch.zeros(3, *shape[1:])]).bfloat16())
    weights = torch.randn(padded.shape).bfloat16()
    (gradient,) = torch.autograd.grad(padded, given, weights)
    torch.testing.assert_close(gradient, weights[:5].float())
