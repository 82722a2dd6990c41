from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoca.errors import UserError
from hoca.options import make, read_arguments


@dataclass(frozen=True)
class Sizes:
    width: int = 1
    share: float = 0.5
    name: str = "x"


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
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
