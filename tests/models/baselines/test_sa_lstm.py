"""SA-LSTM: its context feeds the recurrence, or the words, where it is the paper's unary attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.models import CaptionModel

from ..test_contract import captioner
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, Lengths, captions, videos
from ..tiny import captioner as paper_captioner

SIZES = {"hidden": 8, "attention": 6, "embedding": 7, "max_steps": 6, "dropout": 0.0}


def with_weights_of(unary: Any, **options: Any) -> CaptionModel:
    """An SA-LSTM that has the weights of a unary HOCA under its own names."""
    from hoca.models import create

    model: Any = create("sa-lstm", WIDTHS, VOCABULARY, **SIZES | options).double().eval()
    model.encoder.load_state_dict(unary.encoder.state_dict())
    model.words.load_state_dict(unary.decoder.embedding.state_dict())
    model.cell.load_state_dict({k.removesuffix("_l0"): v for k, v in unary.decoder.lstm.state_dict().items()})
    for number, modality in enumerate(WIDTHS):
        part = model.attention[modality]
        part.query.load_state_dict(unary.attention.queries[modality].state_dict())
        part.key.load_state_dict(unary.attention.keys[modality].state_dict())
        part.channel.data.copy_(unary.attention.scorers[number].channel)
    model.output.load_state_dict(unary.output.state_dict())
    model.fusion.load_state_dict(unary.fusion.state_dict())
    return model


@pytest.mark.parametrize("fusion", ["sum", "hierarchical"])
@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_fed_to_the_output_it_is_unary_hoca_number_for_number(fusion: str, given: Lengths) -> None:
    unary = paper_captioner("hoca-u", fusion=fusion)
    model = with_weights_of(unary, feed="output", fusion=fusion)
    features, words = videos(), captions()
    torch.testing.assert_close(model(features, given, words), unary(features, given, words))
    looked, expected = (each.look(each.encode(features, given), words) for each in (model, unary))
    assert looked is not None
    assert expected is not None
    torch.testing.assert_close(looked.attention, expected.attention)
    torch.testing.assert_close(looked.shares, expected.shares)


def test_fed_to_the_input_the_context_reaches_words_through_the_recurrence_alone() -> None:
    model: Any = captioner("sa-lstm")
    memory = model.encode(videos(), RAGGED)
    decoded = model.decode(memory, captions(), model.begin(memory, 2))
    torch.testing.assert_close(decoded.logits, model.output(decoded.hidden))


def test_a_step_is_an_lstm_cell_over_the_word_and_what_the_state_before_attends_to() -> None:
    model: Any = captioner("sa-lstm")
    memory = model.encode(videos(1), {m: length[:1] for m, length in RAGGED.items()})
    words = torch.tensor([[[VOCABULARY.bos, VOCABULARY["a"], VOCABULARY["dog"]]]])
    h, c = (part[:, 0] for part in model.begin(memory, 1))  # [1, H]
    expected = []
    for word in words[0, 0]:
        context = 0
        for modality, encoded in memory.encoded.items():
            part, steps = model.attention[modality], int(RAGGED[modality][0])
            scores = torch.tanh(part.query(h) + part.key(encoded[0, :steps])) @ part.channel  # [T]
            context = context + torch.softmax(scores, 0) @ encoded[0, :steps]
        h, c = model.cell(torch.cat([model.words(word), context])[None], (h, c))
        expected.append(h[0])
    torch.testing.assert_close(model.decode(memory, words, model.begin(memory, 1)).hidden[0, 0], torch.stack(expected))
