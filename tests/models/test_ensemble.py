"""Several captioners as one: the mean of their probabilities, and nothing else of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.errors import UserError
from hoca.generation import SentenceLimits, beam_search
from hoca.models import CaptionModel, Explanation, create, restore
from hoca.models.ensemble import Ensemble

from .tiny import HOLES, RAGGED, SIZES, VOCABULARY, WIDTHS, captioner, captions, videos

SHARED = {key: value for key, value in SIZES.items() if key != "attention"}
MIXED = ({"name": "l-hoca-ub", "attention": 6}, {"name": "sa-lstm", "attention": 5, "hidden": 4}, {"name": "cst"})


def ensemble(*members: dict[str, Any], **options: Any) -> Ensemble:
    torch.manual_seed(1)
    model = create("ensemble", WIDTHS, VOCABULARY, **SHARED | options, members=members).double().eval()
    assert isinstance(model, Ensemble)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def copies(model: CaptionModel, count: int) -> Ensemble:
    together = ensemble(*[{"name": model.name, "attention": 6}] * count)
    for member in together.members:
        member.load_state_dict(model.state_dict())
    return together


def test_a_word_has_the_mean_of_its_members_probabilities() -> None:
    model, features, words = ensemble(*MIXED), videos(), captions()
    memory = model.encode(features, HOLES)
    expected = torch.stack([member(features, HOLES, words).softmax(-1) for member in model.members]).mean(0)
    torch.testing.assert_close(model(features, HOLES, words).softmax(-1), expected)
    state = model.begin(memory, 2)
    for place in range(words.shape[2]):
        logits, state, _ = model.decode(memory, words[:, :, place : place + 1], state)
        torch.testing.assert_close(logits.squeeze(2).exp(), expected[:, :, place])  # normalised already


def test_members_have_the_shared_options_and_their_own() -> None:
    first, second, third = ensemble(*MIXED).members
    assert [first.name, second.name, third.name] == ["l-hoca-ub", "sa-lstm", "cst"]
    assert (first.config.hidden, second.config.hidden, third.config.hidden) == (8, 4, 8)
    assert (first.config.orders, first.config.attention, second.config.attention) == ((1, 2), 6, 5)


@pytest.mark.parametrize("count", [1, 2])
def test_one_model_alone_or_twice_says_what_it_says(count: int) -> None:
    model, features, words = captioner("l-hoca-ub"), videos(), captions()
    together = copies(model, count)
    torch.testing.assert_close(
        together(features, RAGGED, words).softmax(-1), model(features, RAGGED, words).softmax(-1)
    )
    found, expected = (
        beam_search(each, each.encode(features, HOLES), SentenceLimits(max_length=5), width=4)
        for each in (together, model)
    )
    assert found.texts(VOCABULARY) == expected.texts(VOCABULARY)
    torch.testing.assert_close(found.logprob, expected.logprob)


def test_what_it_looked_at_is_the_mean_of_what_all_members_tell() -> None:
    features, words = videos(), captions()
    same = ensemble({"name": "l-hoca-ub"}, {"name": "l-hoca-ub"})
    found: Any = same.look(same.encode(features, RAGGED), words)
    each: list[Any] = [member.look(member.encode(features, RAGGED), words) for member in same.members]
    for modality in WIDTHS:
        torch.testing.assert_close(
            found.attention[modality], (each[0].attention[modality] + each[1].attention[modality]) / 2
        )
        assert found.groups[modality].keys() == each[0].groups[modality].keys()
        for group, theta in found.theta[modality].items():
            assert theta == pytest.approx((each[0].theta[modality][group] + each[1].theta[modality][group]) / 2)
    other = ensemble({"name": "l-hoca-ub"}, {"name": "sa-lstm"})
    some: Any = other.look(other.encode(features, RAGGED), words)
    assert some.attention.keys() == some.shares.keys() == WIDTHS.keys()
    assert (some.groups, some.theta) == ({}, {})
    mixed = ensemble(*MIXED)
    assert mixed.look(mixed.encode(features, RAGGED), words) == Explanation()  # nothing that all of them have


def test_matrices_with_the_same_axes_are_averaged() -> None:
    features, words = videos(), captions()
    model: Any = ensemble({"name": "cst"}, {"name": "cst"})
    (found,) = model.look(model.encode(features, HOLES), words).matrices.values()
    each = [member.look(member.encode(features, HOLES), words).matrices for member in model.members]
    first, second = (matrices["share in the pooled video"] for matrices in each)
    torch.testing.assert_close(found.values, (first.values + second.values) / 2)
    assert (found.rows, found.columns, found.about) == (first.rows, first.columns, first.about)


def test_words_are_detected_once_for_all() -> None:
    model = ensemble({"name": "hoca-u"}, {"name": "hoca-u"}, word_detector=("image",))
    assert [member.detector for member in model.members] == [None, None]
    assert model.detector is not None
    torch.nn.init.normal_(model.detector.outer_bias)
    evidence = model.encode(videos(), RAGGED).evidence
    assert evidence is not None
    torch.testing.assert_close(evidence, model.detector.outer_bias.expand(3, -1))


REFUSED: dict[str, tuple[Any, str]] = {
    "none": ([], "an ensemble of 0 members: 1 to 8 are possible"),
    "too many": ([{"name": "hoca-u"}] * 9, "an ensemble of 9 members: 1 to 8 are possible"),
    "nested": ([{"name": "cst"}, {"name": "ensemble"}], "member 2, 'ensemble': an ensemble within an ensemble"),
    "deeply": ([{"name": "ensemble", "members": [{"name": "ensemble"}] * 9}], "an ensemble within an ensemble"),
    "unknown": ([{"name": "hoca-v"}], "there is no model 'hoca-v'"),
    "without a name": ([{"hidden": 3}], "there is no model"),
    "a name that is a list": ([{"name": ["hoca-u"] * 1000}], "there is no model"),
    "an option of another": ([{"name": "cst", "rank": 2}], "member 1, 'cst': the model has no option 'rank'"),
    "a huge size": ([{"name": "cst", "hidden": 10**9}], "hidden=1000000000 must be"),
    "a text for a size": ([{"name": "cst", "hidden": "8"}], "hidden='8' must be a whole number"),
    "modalities": ([{"name": "cst", "modalities": {"smell": 3}}], "modalities is that of the whole ensemble"),
    "a detector": ([{"name": "cst", "word_detector": ["image"]}], "word_detector is that of the whole ensemble"),
    "names alone": (["hoca-u"], "members="),
    "a text": ("hoca-u", "members='hoca-u' must be a list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_hostile_members_are_refused_in_one_line(case: str) -> None:
    members, complaint = REFUSED[case]
    for make in (
        lambda: create("ensemble", WIDTHS, VOCABULARY, members=members),
        lambda: restore("ensemble", {"modalities": WIDTHS, "members": members}, VOCABULARY),
    ):
        with pytest.raises(UserError) as raised:
            make()
        assert complaint in str(raised.value)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 500
