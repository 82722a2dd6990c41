"""SA-LSTM: its context feeds the recurrence, or the words, where it is the paper's unary attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.errors import UserError
from hoca.models import CaptionModel, create

from ..test_contract import all_losses, captioner, whole_captions
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, Features, Lengths, alone, captions, videos
from ..tiny import captioner as paper_captioner

SIZES = {"hidden": 8, "attention": 6, "embedding": 7, "max_steps": 6, "dropout": 0.0}


def with_weights_of(unary: Any, **options: Any) -> CaptionModel:
    """An SA-LSTM that has the weights of a unary HOCA under its own names."""
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


def without_encoder(name: str = "sa-lstm", modalities: Any = WIDTHS, **options: Any) -> Any:
    torch.manual_seed(0)
    model = create(name, modalities, VOCABULARY, **SIZES | {"encoder": "none"} | options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def test_without_an_encoder_it_attends_to_the_features_themselves() -> None:
    model = without_encoder(modalities={"image": 5})
    assert model.cell.input_size == 7 + 5
    features = {"image": torch.randn(1, 3, 5).double()}
    words = torch.tensor([[[VOCABULARY.bos, VOCABULARY["a"], VOCABULARY["dog"]]]])
    h, c = (part[:, 0] for part in model.begin(model.encode(features, {}), 1))  # [1, H]
    expected, part = [], model.attention["image"]
    for word in words[0, 0]:
        scores = torch.tanh(part.query(h) + part.key(features["image"][0])) @ part.channel  # [T]
        context = torch.softmax(scores, 0) @ features["image"][0]
        h, c = model.cell(torch.cat([model.words(word), context])[None], (h, c))
        expected.append(model.output(h)[0])
    torch.testing.assert_close(model(features, {}, words)[0, 0], torch.stack(expected))


@pytest.mark.parametrize("options", [{}, {"normalise": True}], ids=["as they are", "normalised"])
@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_without_an_encoder_a_batch_is_its_videos_one_by_one_and_word_by_word(
    given: Lengths, options: dict[str, Any]
) -> None:
    model, features, words = without_encoder(**options), videos(), captions()
    dirty: Features = {m: x.clone() for m, x in features.items()}
    for m, length in given.items():
        for video, real in enumerate(length.tolist()):
            dirty[m][video, real:] = float("nan")
    logits = model(dirty, given, words)
    for video in range(3):
        torch.testing.assert_close(
            logits[video : video + 1], model(*alone(features, given, video), words[video : video + 1])
        )
    memory = model.encode(features, given)
    state, found = model.begin(memory, 2), []
    for word in words.split(1, dim=2):
        each, state, _ = model.decode(memory, word, state)
        found.append(each)
    torch.testing.assert_close(torch.cat(found, dim=2), logits)


def test_without_an_encoder_every_parameter_learns() -> None:
    for name in ("sa-lstm", "recnet-global", "recnet-local"):
        model = without_encoder(name)
        all_losses(model, videos(), HOLES, whole_captions()).backward()
        for key, parameter in model.named_parameters():
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all(), key
            assert parameter.grad.abs().max() > 0, key


@pytest.mark.parametrize("options", [{"feed": "output"}, {"fusion": "hierarchical"}])
def test_without_an_encoder_contexts_of_different_widths_enter_the_recurrence(options: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"encoder=none with feed=.*: features of different widths need feed=input"):
        without_encoder(**options)
    with pytest.raises(UserError, match="encoder='none' must be one of bilstm"):
        without_encoder("dense-cap")
