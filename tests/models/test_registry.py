"""Names, what they stand for, and how a class gets one. What every model must fulfil is in test_contract.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

import hoca.models.registry as registry
from hoca.errors import UserError
from hoca.models import Captioner, create, entry, names, register, restore
from hoca.models.hoca import HocaConfig
from hoca.options import option

from .tiny import PAPER, SIZES, VOCABULARY, WIDTHS


@pytest.fixture
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


def test_the_papers_nine_names_are_there_and_patterns_select() -> None:
    nine = ["hoca-u", "hoca-b", "l-hoca-b", "hoca-t", "l-hoca-t", "hoca-ub", "l-hoca-ub", "hoca-ubt", "l-hoca-ubt"]
    assert nine == PAPER
    assert set(nine) <= set(names())
    assert names("l-*") == ["l-hoca-b", "l-hoca-t", "l-hoca-ub", "l-hoca-ubt"]
    assert names("no such*") == []


@pytest.mark.parametrize("name", names())
def test_a_name_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    found = entry(name)
    assert found.name == name
    assert found.about
    assert "\n" not in found.about
    assert found.source
    assert set(found.defaults) <= set(found.model.Config.options())


@pytest.mark.parametrize(
    ("name", "form", "orders"),
    [
        ("hoca-u", "exact", {1}),
        ("hoca-b", "exact", {2}),
        ("hoca-t", "exact", {3}),
        ("l-hoca-b", "low-rank", {2}),
        ("l-hoca-t", "low-rank", {3}),
        ("hoca-ub", "exact", {1, 2}),
        ("l-hoca-ub", "low-rank", {1, 2}),
        ("hoca-ubt", "exact", {1, 2, 3}),
        ("l-hoca-ubt", "low-rank", {1, 2, 3}),
    ],
)
def test_a_name_stands_for_a_form_and_orders(name: str, form: str, orders: set[int]) -> None:
    model = create(name, WIDTHS, VOCABULARY, **SIZES)
    assert model.name == name
    assert {len(group) for group in model.config.groups} == orders == set(model.config.orders)
    assert model.config.form == form


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hoca-u", "attention of order 1"),
        ("hoca-t", "exact attention of order 3"),
        ("l-hoca-ubt", "low-rank attention of orders 1, 2, 3, rank 1"),
    ],
)
def test_a_model_says_in_words_what_it_is(name: str, text: str) -> None:
    assert create(name, WIDTHS, VOCABULARY, **SIZES).describe() == text


def test_an_option_replaces_what_the_name_stands_for() -> None:
    config = create("l-hoca-ubt", WIDTHS, VOCABULARY, **SIZES, orders=(1, 2), form="exact").config
    assert (config.orders, config.form) == ((1, 2), "exact")
    chosen = create("l-hoca-ubt", WIDTHS, VOCABULARY, **SIZES, groups=[("image", "audio")]).config
    assert (chosen.orders, chosen.groups) == ((2,), (("image", "audio"),))
    assert entry("l-hoca-ubt").defaults == {"form": "low-rank", "orders": (1, 2, 3)}


def test_the_defaults_are_the_papers_settings() -> None:
    config = create("l-hoca-ubt", {"image": 2, "motion": 2, "audio": 2}, VOCABULARY).config
    assert (config.hidden, config.attention, config.embedding) == (512, 512, 300)
    assert (config.dropout, config.encoder_dropout, config.rank) == (0.5, 0.0, 1)
    assert (config.merge, config.fusion, config.share_projections) == ("weights", "hierarchical", False)
    assert (config.normalise, config.tie_words, config.word_detector) == (False, False, ())
    assert config.max_steps == {"image": 80, "motion": 80, "audio": 80}


@pytest.mark.parametrize("name", names())
def test_restored_from_json_it_is_the_same_model(name: str) -> None:
    model = create(name, WIDTHS, VOCABULARY, hidden=8, max_steps={"audio": 5})
    again = restore(name, json.loads(json.dumps(model.config.to_json())), VOCABULARY)
    assert type(again) is type(model)
    assert (again.name, again.config, again.vocabulary) == (name, model.config, VOCABULARY)
    shapes = [{key: value.shape for key, value in each.state_dict().items()} for each in (model, again)]
    assert shapes[0] == shapes[1]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no model 'l-hoka-ubt'.*'l-hoca-ubt'"):
        create("l-hoka-ubt", WIDTHS, VOCABULARY)
    with pytest.raises(UserError, match=r"no model 'l-hoka-ubt'.*'l-hoca-ubt'"):
        restore("l-hoka-ubt", {}, VOCABULARY)


@pytest.mark.parametrize(
    "name", [None, 3, ["hoca-u"], {}, "x" * 10_000], ids=["none", "number", "list", "table", "long"]
)
def test_what_is_no_name_is_answered_with_names(name: Any) -> None:
    """A checkpoint may come from anywhere."""
    with pytest.raises(UserError, match=r"there is no model .*: .*hoca-u") as error:
        restore(name, {}, VOCABULARY)
    assert len(str(error.value)) < 400


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no option 'hiden'.*'hidden'"):
        create("hoca-u", WIDTHS, VOCABULARY, hiden=8)


@dataclass(frozen=True)
class LoudConfig(HocaConfig):
    volume: int = option(1, "how loud", least=1)


class Loud(Captioner):
    Config = LoudConfig
    config: LoudConfig


@pytest.mark.usefixtures("_own_names")
def test_a_class_becomes_a_model_under_each_of_its_names() -> None:
    @register("loud", source="a test", about="says it loudly", orders=(1,), volume=3)
    @register("image-only", source="a test", about="looks at pictures", groups=[("image",)])
    class Named(Loud):
        pass

    assert names()[-2:] == ["image-only", "loud"]
    assert (entry("loud").model, entry("loud").about, entry("loud").source) == (Named, "says it loudly", "a test")
    loud = create("loud", WIDTHS, VOCABULARY, **SIZES)
    assert (loud.name, loud.config.volume, loud.config.orders) == ("loud", 3, (1,))
    image = create("image-only", WIDTHS, VOCABULARY, **SIZES, volume=2)
    assert (image.name, image.config.volume, image.config.groups) == ("image-only", 2, (("image",),))
    assert type(restore("loud", image.config.to_json(), VOCABULARY)) is Named
    with pytest.raises(UserError, match=r"volume=0 must be at least 1"):
        create("loud", WIDTHS, VOCABULARY, volume=0)


@pytest.mark.usefixtures("_own_names")
def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="there is a model 'hoca-u' already"):
        register("hoca-u", source="a test", about="another one")(Loud)
    assert entry("hoca-u").model is Captioner
