from __future__ import annotations

import json
import warnings
from itertools import combinations
from typing import Any

import pytest

from hoca.errors import UserError
from hoca.models.config import Config, configure

WIDTHS = {"image": 5, "motion": 4, "audio": 3}


def test_orders_stand_for_all_groups_of_that_many_modalities() -> None:
    four = dict.fromkeys("abcd", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = configure(four, orders=(4, 1, 2)).groups
    assert groups == (*combinations("abcd", 1), *combinations("abcd", 2), tuple("abcd"))


def test_orders_above_the_number_of_modalities_are_dropped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"orders \[3\] are dropped: there are 2 modalities"):
        config = configure({"image": 5, "motion": 4}, orders=(1, 2, 3))
    assert config.groups == (("image",), ("motion",), ("image", "motion"))


@pytest.mark.parametrize("orders", [(2,), (3, 4), ()])
def test_no_order_left_is_an_error(orders: tuple[int, ...]) -> None:
    with pytest.raises(
        UserError, match=r"leave no attention over 1 modalities \(image\): choose an order of at most 1"
    ):
        configure({"image": 5}, orders=orders)


@pytest.mark.parametrize("pair", [("image", "motion"), ("image", "audio"), ("motion", "audio")])
def test_the_papers_single_pairs_are_explicit_groups(pair: tuple[str, str]) -> None:
    unary = [("image",), ("motion",), ("audio",)]
    config = configure(WIDTHS, orders=(1, 2), groups=[*unary, pair[::-1]])
    assert config.groups == (*unary, pair)
    assert all(len(config.groups_of(m)) == (2 if m in pair else 1) for m in WIDTHS)


def test_max_steps_is_80_where_it_is_not_given() -> None:
    assert configure(WIDTHS, orders=(1,)).max_steps == {"image": 80, "motion": 80, "audio": 80}
    assert configure(WIDTHS, orders=(1,), max_steps=20).max_steps == {"image": 20, "motion": 20, "audio": 20}
    assert configure(WIDTHS, orders=(1,), max_steps={"audio": 16}).max_steps == {"image": 80, "motion": 80, "audio": 16}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [("image", "sound")]}, "names 'sound'"),
        ({"groups": [("image", "image")]}, "different modalities"),
        ({"groups": [()]}, "one or more different modalities"),
        ({"groups": []}, "one or more different groups"),
        ({"groups": [("image", "audio"), ("audio", "image")]}, "one or more different groups"),
        ({"orders": (0, 1)}, "at least 1"),
        ({"orders": (1,), "max_steps": {"sound": 3}}, "max_steps names 'sound'"),
        ({"orders": (1,), "max_steps": 0}, "max_steps.*'image'.*at least 1"),
        ({"orders": (1,), "merge": "weight"}, "merge='weight' is unknown: did you mean 'weights'"),
        ({"orders": (1,), "fusion": "add"}, "fusion='add' is unknown: known: hierarchical, sum"),
        ({"orders": (1,), "form": "lowrank"}, "did you mean 'low-rank'"),
        ({"orders": (1,), "rank": 0}, "rank=0 must be at least 1"),
        ({"orders": (1,), "dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
        ({"orders": (1,), "encoder_dropout": -0.1}, "encoder_dropout=-0.1"),
        ({"orders": (1,), "categories": ["music"]}, "category_width=0 must be at least 1"),
        ({"orders": (1,), "atention": 4}, "did you mean 'attention'"),
    ],
)
def test_mistakes_are_named_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        configure(WIDTHS, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("modalities", [{}, {"image": 0}, {"a.b": 3}, {"": 3}])
def test_modalities_are_checked(modalities: dict[str, int]) -> None:
    with pytest.raises(UserError):
        configure(modalities, orders=(1,))


def test_json_and_back_is_equal() -> None:
    config = configure(
        WIDTHS, groups=[("image", "audio"), ("motion",)], max_steps={"audio": 16}, rank=3, merge="mixture",
        categories=["music", "sports"], category_width=4,
    )  # fmt: skip
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_json_of_another_version_is_named() -> None:
    values = configure(WIDTHS, orders=(1,)).to_json()
    with pytest.raises(UserError, match="unknown key 'heads'"):
        Config.from_json(values | {"heads": 8})
    with pytest.raises(UserError, match="lacks 'groups'"):
        Config.from_json({key: value for key, value in values.items() if key != "groups"})
    with pytest.raises(UserError, match=r"max_steps.*'audio'"):
        Config.from_json(values | {"max_steps": {"image": 80, "motion": 80}})
