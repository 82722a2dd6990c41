from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from hoca.models.trees import map_tensors, shape_of, tensors

from .tiny import HOLES, RAGGED, captioner, videos


class Pair(NamedTuple):
    h: Tensor
    c: Tensor


@dataclass(frozen=True, kw_only=True)
class Base:
    evidence: Tensor | None = None


@dataclass(frozen=True)
class Node(Base):
    parts: dict[str, Tensor]
    state: Pair
    several: list[Any]
    names: frozenset[str]
    rows: int = 3


def tree(offset: float = 0.0) -> Node:
    values = [torch.full((2, n + 1), offset + n) for n in range(5)]
    return Node({"b": values[0], "a": values[1]}, Pair(values[2], values[3]), [(values[4],), None, "x"], frozenset("m"))


def test_every_tensor_is_mapped_and_all_else_is_kept() -> None:
    before = tree()
    after = map_tensors(lambda x: x + 10, before)
    assert type(after) is Node
    assert type(after.state) is Pair
    assert list(after.parts) == ["b", "a"]
    assert isinstance(after.several, list)
    assert isinstance(after.several[0], tuple)
    assert (after.several[1:], after.names, after.rows, after.evidence) == ([None, "x"], frozenset("m"), 3, None)
    assert [x[0, 0].item() for x in tensors(after)] == [10, 11, 12, 13, 14]
    assert [x[0, 0].item() for x in tensors(before)] == [0, 1, 2, 3, 4]
    with pytest.raises(FrozenInstanceError):
        after.rows = 4  # type: ignore[misc]


def test_several_trees_are_mapped_together() -> None:
    summed = map_tensors(lambda a, b, c: a + b * c, tree(), tree(1), tree(2))
    torch.testing.assert_close(tensors(summed), [a + (a + 1) * (a + 2) for a in tensors(tree())])


def test_names_and_not_the_order_of_a_table_say_what_belongs_together() -> None:
    first, other = {"a": torch.zeros(1), "b": torch.ones(1)}, {"b": torch.ones(1), "a": torch.zeros(1)}
    assert all(bool(x.all()) for x in map_tensors(lambda x, y: x == y, first, other).values())


def test_trees_of_another_length_do_not_belong_together() -> None:
    with pytest.raises(ValueError, match="shorter"):
        map_tensors(torch.add, [torch.zeros(1)] * 2, [torch.zeros(1)])


def test_a_tensor_is_a_tree_and_so_is_nothing() -> None:
    x = torch.zeros(2)
    assert tensors(x) == [x]
    assert map_tensors(lambda each: each + 1, x).tolist() == [1, 1]
    assert tensors({"a": (), "b": None}) == []
    assert map_tensors(torch.clone, None) is None


def test_evidence_is_mapped_where_there_is_some() -> None:
    given = Node({}, Pair(torch.zeros(1), torch.zeros(1)), [], frozenset(), evidence=torch.ones(2))
    after = map_tensors(lambda x: x - 1, given)
    assert after.evidence is not None
    assert after.evidence.tolist() == [0, 0]
    assert len(tensors(given)) == 3


def x(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (x(2, 3), x(3, 2)),
        (x(2), x(2, dtype=torch.float64)),
        ({"a": x(2)}, {"b": x(2)}),
        ({"a": x(2)}, {"a": x(2), "b": x(2)}),
        ({"a": {"b": x(2)}}, {"a": {}, "b": x(2)}),
        ((x(2), (x(2), x(2))), ((x(2), x(2)), x(2))),
        ([x(2), 3], [x(2), 4]),
        ([x(2), None], [x(2), x(2)]),
        ([x(2), frozenset("a")], [x(2), frozenset("b")]),
    ],
    ids=["shape", "type", "name", "more", "nesting", "places", "constant", "none", "set"],
)
def test_trees_with_different_places_for_tensors_have_different_shapes(one: Any, other: Any) -> None:
    assert shape_of(one) != shape_of(other)
    assert hash(shape_of(one)) == hash(shape_of(map_tensors(torch.ones_like, one)))


def test_the_shape_of_a_memory_tells_whether_any_of_it_is_padding() -> None:
    model = captioner()
    ragged, other, full = (shape_of(model.encode(videos(), given)) for given in (RAGGED, HOLES, {}))
    assert ragged == other != full
