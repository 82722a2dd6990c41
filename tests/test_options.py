from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca.errors import UserError
from hoca.options import about, check_bounds, convert, from_arguments, make, option, read_arguments


@dataclass(frozen=True)
class Sizes:
    width: int = 1
    share: float = 0.5
    name: str = "x"


@dataclass(frozen=True)
class Bounded:
    depth: int = option(2, "how deep", least=1, below=10)
    rate: float = option(0.0, "how fast", least=0)
    steps: Mapping[str, int] = option({}, "how long", least=1, below=100)
    orders: tuple[int, ...] = option((), "which")
    groups: tuple[tuple[str, ...], ...] = option((), "together")
    mode: Literal["slow", "fast"] = option("slow", "how")
    folder: str | None = option(None, "where")
    anything: Any = None

    def __post_init__(self) -> None:
        check_bounds(self)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"))  # what may be the name of a file


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), NAMES)
def test_right_values_arrive_as_they_are(width: int, share: float, name: str) -> None:
    assert make(Sizes, ("a file", {"width": width, "share": share, "name": name})) == Sizes(width, share, name)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_on_the_command_line_is_that_number(share: float) -> None:
    assert make(Sizes, ("the command line", read_arguments([f"share={share!r}"]))).share == share


def test_a_later_source_wins() -> None:
    assert make(Sizes, ("one", {"width": 2, "name": "y"}), ("two", {"width": 3})) == Sizes(3, 0.5, "y")


def test_a_value_may_hold_an_equals_sign() -> None:
    assert read_arguments(["name=a=b"]) == {"name": "a=b"}


@pytest.mark.parametrize(
    ("key", "value"), [("width", "1"), ("width", None), ("share", True), ("share", [1]), ("name", 1)]
)
def test_a_mistyped_value_says_where_it_stands(key: str, value: object) -> None:
    with pytest.raises(UserError, match=f"a file: {key}="):
        make(Sizes, ("a file", {key: value}))


def test_an_unknown_key_says_the_nearest() -> None:
    with pytest.raises(UserError, match="a file: there is no key 'widht': did you mean 'width'"):
        make(Sizes, ("a file", {"widht": 1}))


def test_lists_become_tuples_and_tables_keep_their_names() -> None:
    values = {
        "orders": [1, 2], "groups": [["image", "audio"], ("motion",)], "steps": {"image": 3}, "mode": "fast",
        "folder": None, "anything": [{"x": 1}],
    }  # fmt: skip
    made = make(Bounded, ("a file", values))
    assert made.orders == (1, 2)
    assert made.groups == (("image", "audio"), ("motion",))
    assert made.steps == {"image": 3}
    assert (made.mode, made.folder, made.anything) == ("fast", None, [{"x": 1}])
    assert from_arguments(Bounded, ["orders=[1, 2]", "groups=[[image, audio], [motion]]"]).groups == made.groups


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("orders", 2, r"orders=2 must be a list, like \[1, 2\]"),
        ("orders", "12", r"orders='12' must be a list, like \[1, 2\]"),
        ("orders", [1, "2"], r"orders=\[1, '2'\] must be a whole number"),
        ("orders", [True], r"orders=\[True\] must be a whole number"),
        ("groups", ["image", "audio"], r"groups=.* must be a list, like \[image, motion\]"),
        ("steps", 3, "steps=3 must be a table of names and values"),
        ("steps", {"image": "3"}, "steps=a dict must be a whole number"),
        ("steps", {1: 3}, "steps=a dict must be text"),
        ("mode", "fats", "mode='fats' must be one of slow, fast"),
        ("mode", ["fast"], r"mode=\['fast'\] must be one of slow, fast"),
        ("rate", float("nan"), "rate=nan must be a number"),
        ("rate", 10**400, "rate=a number of 1329 bits must be a number"),
        ("folder", 3, "folder=3 must be text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_inside_a_list_or_a_table_is_named(key: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"^a file: {message}"):
        convert(Bounded, {key: value}, "a file")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"depth": 0}, "depth=0 must be at least 1 and below 10"),
        ({"depth": 10}, "depth=10 must be at least 1 and below 10"),
        ({"rate": -0.5}, "rate=-0.5 must be at least 0"),
        ({"rate": float("nan")}, "rate=nan must be at least 0"),
        ({"steps": {"image": 5, "audio": 0}}, "steps.audio=0 must be at least 1 and below 100"),
        ({"mode": "fats"}, "mode='fats' is unknown: did you mean 'fast'?"),
        ({"depth": 1 << 20_000}, "depth=a number of 20001 bits must be at least 1 and below 10"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_lies_outside_its_bounds_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Bounded(**values)
    assert str(error.value) == message


def test_what_lies_on_its_bounds_is_taken() -> None:
    assert Bounded(depth=1, rate=0.0, steps={"image": 1, "audio": 99}) == Bounded(1, 0.0, {"image": 1, "audio": 99})
    assert Bounded(depth=9).depth == 9


def test_a_default_table_is_not_shared() -> None:
    assert Bounded().steps is not Bounded().steps


def test_only_options_are_described() -> None:
    assert about(Bounded) == {
        "depth": "how deep", "rate": "how fast", "steps": "how long", "orders": "which", "groups": "together",
        "mode": "how", "folder": "where",
    }  # fmt: skip
    assert about(Sizes) == {}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


HUGE = [
    nested(100_000),
    [[0] * 1000] * 5,
    list(range(100_000)),
    {str(number): [number] * 10 for number in range(10_000)},
    "x" * 1_000_000,
    ["x" * 1_000_000] * 3,
    -(1 << 100_000),
]


@pytest.mark.parametrize("value", HUGE, ids=["deep", "wide", "long", "table", "text", "texts", "number"])
def test_a_huge_value_gives_a_short_message(value: Any) -> None:
    for key in ("depth", "groups", "steps", "mode"):
        with pytest.raises(UserError) as error:
            make(Bounded, ("a file", {key: value}))
        assert len(str(error.value)) < 400
        assert "\n" not in str(error.value)


def test_an_unknown_key_that_is_huge_gives_a_short_message() -> None:
    with pytest.raises(UserError) as error:
        make(Sizes, ("a file", {"x" * 100_000: 1}))
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    "argument",
    [
        "width",
        "width=[",
        pytest.param("width=" + "[" * 5000, id="deep"),
        pytest.param("width=" + "1" * 5000, id="digits"),
        "name=2020-13-45",
        "name=!!python/name:os.x",
        "name=\x00",
    ],
)
def test_an_argument_that_cannot_be_read_is_named_in_one_short_line(argument: str) -> None:
    with pytest.raises(UserError, match=r"^the argument '(width|name)") as error:
        from_arguments(Sizes, [argument])
    assert len(str(error.value)) < 150
    assert "\n" not in str(error.value)
