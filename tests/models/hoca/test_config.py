from __future__ import annotations

import json
import warnings
from itertools import combinations
from typing import Any

import pytest

from hoca.errors import UserError
from hoca.models.hoca import HocaConfig

WIDTHS = {"image": 5, "motion": 4, "audio": 3}


def test_orders_stand_for_all_groups_of_that_many_modalities() -> None:
    four = dict.fromkeys("abcd", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = HocaConfig.of(four, orders=(4, 1, 2)).groups
    assert groups == (*combinations("abcd", 1), *combinations("abcd", 2), tuple("abcd"))


def test_orders_above_the_number_of_modalities_are_dropped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"orders \[3\] are dropped: there are 2 modalities"):
        config = HocaConfig.of({"image": 5, "motion": 4}, orders=(1, 2, 3))
    assert config.groups == (("image",), ("motion",), ("image", "motion"))


@pytest.mark.parametrize("orders", [(2,), (3, 4), ()])
def test_no_order_left_is_an_error(orders: tuple[int, ...]) -> None:
    with pytest.raises(
        UserError, match=r"leave no attention over 1 modalities \(image\): choose an order of at most 1"
    ):
        HocaConfig.of({"image": 5}, orders=orders)


@pytest.mark.parametrize("pair", [("image", "motion"), ("image", "audio"), ("motion", "audio")])
def test_the_papers_single_pairs_are_explicit_groups(pair: tuple[str, str]) -> None:
    unary = [("image",), ("motion",), ("audio",)]
    config = HocaConfig.of(WIDTHS, orders=(1, 2), groups=[*unary, pair[::-1]])
    assert config.groups == (*unary, pair)
    assert all(len(config.groups_of(m)) == (2 if m in pair else 1) for m in WIDTHS)


def test_max_steps_is_80_where_it_is_not_given() -> None:
    assert HocaConfig.of(WIDTHS, orders=(1,)).max_steps == {"image": 80, "motion": 80, "audio": 80}
    assert HocaConfig.of(WIDTHS, orders=(1,), max_steps=20).max_steps == {"image": 20, "motion": 20, "audio": 20}
    assert HocaConfig.of(WIDTHS, orders=(1,), max_steps={"audio": 16}).max_steps == {
        "image": 80,
        "motion": 80,
        "audio": 16,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [("image", "sound")]}, "names 'sound'"),
        ({"groups": [("image", "image")]}, "different modalities"),
        ({"groups": [()]}, "one or more different modalities"),
        ({"groups": []}, r"orders=\[\] leave no attention over 3 modalities"),
        ({"groups": [("image", "audio"), ("audio", "image")]}, "must name different groups"),
        ({"groups": ["image"]}, r"groups=\['image'\] must be a list, like"),
        ({"orders": 2}, r"orders=2 must be a list, like \[1, 2\]"),
        ({"orders": (0, 1)}, "at least 1"),
        ({"orders": (1,), "max_steps": {"sound": 3}}, "max_steps names 'sound'"),
        ({"orders": (1,), "max_steps": 0}, "max_steps.image=0 must be at least 1"),
        ({"orders": (1,), "max_steps": {"audio": 1 << 14}}, "max_steps.audio=16384 must be at least 1 and below 16384"),
        ({"orders": (1,), "max_steps": "many"}, "max_steps='many' must be a table"),
        ({"orders": (1,), "merge": "weight"}, "merge='weight' must be one of weights, logits, mixture"),
        ({"orders": (1,), "fusion": "add"}, "fusion='add' must be one of hierarchical, sum"),
        ({"orders": (1,), "form": "lowrank"}, "form='lowrank' must be one of exact, low-rank"),
        ({"orders": (1,), "rank": 0}, "rank=0 must be at least 1"),
        ({"orders": (1,), "dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
        ({"orders": (1,), "encoder_dropout": -0.1}, "encoder_dropout=-0.1"),
        ({"orders": (1,), "categories": ["music"]}, "category_width=0 must be at least 1"),
        ({"orders": (1,), "hidden": 0}, "hidden=0 must be at least 1 and below 65536"),
        ({"orders": (1,), "hidden": 1 << 16}, "hidden=65536 must be at least 1 and below 65536"),
        ({"orders": (1,), "hidden": 8.5}, "hidden=8.5 must be a whole number"),
        ({"orders": (1,), "normalise": 1}, "normalise=1 must be true or false"),
        ({"orders": (1,), "word_detector": ["smell"]}, "word_detector names 'smell', which is no modality"),
        ({"orders": (1,), "word_detector": ["image", "image"]}, "word_detector names a modality twice"),
        ({"orders": (1,), "atention": 4}, "did you mean 'attention'"),
    ],
)
def test_mistakes_are_named_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        HocaConfig.of(WIDTHS, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("modalities", [{}, {"image": 0}, {"image": 1 << 16}, {"a.b": 3}, {"": 3}])
def test_modalities_are_checked(modalities: dict[str, int]) -> None:
    with pytest.raises(UserError):
        HocaConfig.of(modalities, orders=(1,))


def test_json_and_back_is_equal() -> None:
    config = HocaConfig.of(
        WIDTHS, groups=[("image", "audio"), ("motion",)], max_steps={"audio": 16}, rank=3, merge="mixture",
        categories=["music", "sports"], category_width=4,
    )  # fmt: skip
    assert HocaConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_json_of_another_version_is_named() -> None:
    values = HocaConfig.of(WIDTHS, orders=(1,)).to_json()
    with pytest.raises(UserError, match="unknown key 'heads'"):
        HocaConfig.from_json(values | {"heads": 8})
    with pytest.raises(UserError, match="lacks 'modalities'"):
        HocaConfig.from_json({key: value for key, value in values.items() if key != "modalities"})
    with pytest.raises(UserError, match="leave no attention"):
        HocaConfig.from_json({key: value for key, value in values.items() if key not in ("groups", "orders")})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "lacks 'modalities'"),
        ([], "lacks 'modalities'"),
        ({"modalities": ["image"]}, r"modalities=\['image'\] must be a table"),
        ({"modalities": {"image": "5"}}, "must be a whole number"),
        ({"modalities": {"image": 5}, "orders": [1], "max_steps": {"audio": 3}}, "max_steps names 'audio'"),
        ({"modalities": {"image": 5}, "orders": [1], "groups": [["motion"]]}, "names 'motion'"),
        ({"modalities": {"image": 5}, "orders": [1], "hidden": 1 << 40}, "hidden=1099511627776 must be"),
        ({"modalities": {"image": 5}, "orders": [1], "form": "other"}, "form='other' must be one of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_configuration_is_an_error_of_one_line(values: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        HocaConfig.from_json(values)
    assert "\n" not in str(error.value)


def test_a_choice_is_checked_however_a_configuration_is_made() -> None:
    with pytest.raises(UserError, match="merge='weight' is unknown: did you mean 'weights'"):
        HocaConfig({"image": 5}, orders=(1,), merge="weight")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="rank=0 must be at least 1"):
        HocaConfig({"image": 5}, orders=(1,), rank=0)


def test_options_are_what_a_recipe_may_set() -> None:
    assert {"hidden", "orders", "groups", "merge", "max_steps", "word_detector"} <= set(HocaConfig.options())
    assert {"modalities", "categories", "category_width"}.isdisjoint(HocaConfig.options())
