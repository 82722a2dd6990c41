"""LSTM-TSA: what a word takes from each source of attributes, and where attributes come from."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.models import create
from hoca.models.baselines.lstm_tsa import ATTRIBUTES
from hoca.models.parts.mil import probability
from hoca.training.objectives import TeacherForcing

from ..test_contract import REFERENCES, batch_of, captioner, objective, sizes, whole_captions
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos

TWO = {"image": 5, "motion": 4}


def two_sources() -> tuple[Any, Any]:
    model = captioner("lstm-tsa", TWO)
    return model, model.encode(videos(modalities=TWO), {})


def scores(model: Any, memory: Any) -> torch.Tensor:
    return model.decode(memory, captions(), model.begin(memory, 2)).logits


@pytest.mark.parametrize(("taken", "other"), [(0, 1), (1, 0)])
def test_a_gate_that_is_open_for_one_source_hides_the_other(taken: int, other: int) -> None:
    model, memory = two_sources()
    bias = torch.full((2, 7), -1e4).double()
    bias[taken] = 1e4
    model.word_gates.bias.data.copy_(bias.flatten())
    torch.manual_seed(1)
    before = scores(model, memory)
    memory.inputs[:, other] += 1.0
    torch.manual_seed(1)
    torch.testing.assert_close(scores(model, memory), before)
    memory.inputs[:, taken] += 1.0
    torch.manual_seed(1)
    assert not torch.allclose(scores(model, memory), before)


def test_sources_that_say_the_same_leave_the_gate_without_effect() -> None:
    model, memory = two_sources()
    memory.inputs[:, 1] = memory.inputs[:, 0]
    words = captions()
    before = model.decode(memory, words, model.begin(memory, 2)).logits
    memory.gates.add_(torch.randn_like(memory.gates))
    torch.testing.assert_close(model.decode(memory, words, model.begin(memory, 2)).logits, before)


def test_of_two_sources_the_softmax_is_the_papers_sigmoid() -> None:
    """x_t = T_s y_t + g ⊙ T_i A_i + (1 - g) ⊙ T_v A_v, with g the sigmoid of the difference of the scores."""
    model, memory = two_sources()
    words = torch.full((3, 1, 1), VOCABULARY.bos)
    h, c = (part[:, 0] for part in model.begin(memory, 1))
    y = model.words(words[:, 0, 0])
    both = (model.word_gates(y) + model.state_gates(h)).unflatten(1, (2, 7)) + memory.gates
    g = torch.sigmoid(both[:, 0] - both[:, 1])
    x = model.word_input(y) + g * memory.inputs[:, 0] + (1 - g) * memory.inputs[:, 1]
    expected, _ = model.cell(x, (h, c))
    decoded = model.decode(memory, words, model.begin(memory, 1))
    torch.testing.assert_close(decoded.hidden[:, 0, 0], expected)
    torch.testing.assert_close(model.look(memory, words).choices["attributes taken from"]["image"][:, 0, 0], g.mean(1))


def test_the_video_is_read_before_the_first_word() -> None:
    model: Any = captioner("lstm-tsa")
    features = videos()
    memory = model.encode(features, HOLES)
    encoded = model.encoder(_batch(model, features))
    read = model.video.bias.expand(3, -1).clone()
    for m, x in encoded.items():
        for video, length in enumerate(HOLES[m].tolist()):
            if length:
                read[video] += model.video.maps[m](x[video, :length].mean(0))
    zeros = torch.zeros(3, 7).double()
    for found, expected in zip(model.begin(memory, 2), model.cell(read, (zeros, zeros)), strict=True):
        torch.testing.assert_close(found, expected[:, None].expand(-1, 2, -1))


def _batch(model: Any, features: Any) -> Any:
    from hoca.models.parts.features import FeatureBatch

    return FeatureBatch.of(model.config, features, HOLES)


def test_attributes_are_those_of_the_captions_and_their_loss_counts_once_for_each_caption() -> None:
    model: Any = captioner("lstm-tsa")
    words, features = whole_captions(), videos()
    losses = TeacherForcing(model, objective(model))(batch_of(features, HOLES, words, model))
    memory, expected = model.encode(features, HOLES), 0.0
    for video, count in enumerate((2, 2, 1)):
        labels = model.targets(REFERENCES[video])[ATTRIBUTES].double()
        each = [
            torch.nn.functional.binary_cross_entropy(probability(memory.missed[m][video]), labels, reduction="sum")
            for m in WIDTHS
            if HOLES[m][video]
        ]
        expected += count * float(torch.stack(each).mean().detach())
    assert float(losses[ATTRIBUTES].loss.detach()) == pytest.approx(expected)
    assert losses[ATTRIBUTES].weight == model.config.attribute_weight


def test_what_it_found_is_told_by_source() -> None:
    model: Any = captioner("lstm-tsa")
    looked = model.look(model.encode(videos(), HOLES), captions())
    assert list(looked.found) == [f"attributes in {m}" for m in WIDTHS]
    for m, length in HOLES.items():
        attributes = looked.found[f"attributes in {m}"]
        assert set(attributes) <= {"man", "dog", "sings", "runs", "red", "loudly"}
        for word in attributes.values():
            assert bool((word[length == 0] == 0).all())


def test_one_that_was_not_prepared_has_no_attributes_and_captions_all_the_same() -> None:
    model: Any = create("lstm-tsa", WIDTHS, VOCABULARY, **sizes("lstm-tsa")).double().eval()
    memory = model.encode(videos(), RAGGED)
    assert model.decode(memory, captions(), model.begin(memory, 2)).logits.isfinite().all()
    assert model.look(memory, captions()).found == {}
    assert not any(x.any() for x in memory.missed.values())


def test_features_may_be_taken_as_they_are() -> None:
    model = create("lstm-tsa", WIDTHS, VOCABULARY, **sizes("lstm-tsa"), encoder="none", normalise=True).double().eval()
    features, words = videos(), captions()
    dirty = {m: x.clone() for m, x in features.items()}
    dirty["image"][0, 4:] = dirty["audio"][0, 1:] = float("nan")
    found = model(dirty, RAGGED, words)
    assert found.isfinite().all()
    torch.testing.assert_close(found, model(features, RAGGED, words))
