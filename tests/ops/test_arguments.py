"""A wrong argument is named, with the shape that was expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from hoca import ops

WRONG = {
    "queries[0]": ("exact", "queries", 0, torch.zeros(3, 5)),
    "queries[1]": ("exact", "queries", 1, torch.zeros(2, 4, 5)),
    "keys[0]": ("low_rank", "keys", 0, torch.zeros(7)),
    "keys[1]": ("exact", "keys", 1, torch.zeros(2, 5, 6)),
    "weights[2]": ("exact", "weights", 2, torch.zeros(5, 7)),
    "factors[0]": ("low_rank", "factors", 0, torch.zeros(())),
    "factors[1]": ("low_rank", "factors", 1, torch.zeros(3, 5)),
    "channels[2]": ("low_rank", "channels", 2, torch.zeros(4)),
    "masks[0]": ("exact", "masks", 0, torch.ones(2, 5, dtype=torch.bool)),
    "masks[1]": ("low_rank", "masks", 1, torch.ones(2, 5)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_tensor_of_the_wrong_shape_or_type_is_named(make_group: Callable[..., Any], name: str) -> None:
    kind, field, index, tensor = WRONG[name]
    group = make_group((7, 5, 3), lengths=[[7, 4], [5, 1], [3, 2]])
    getattr(group, field)[index] = tensor
    with pytest.raises(ValueError, match=rf"{field}\[{index}\] has (shape|dtype) .*expected"):
        group.scores(kind)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("query", torch.zeros(3, 5)),
        ("key", torch.zeros(2, 7, 4)),
        ("channel", torch.zeros(5, 1)),
        ("mask", torch.ones(2, 7)),
    ],
)
def test_unary_names_its_own_arguments(name: str, tensor: torch.Tensor) -> None:
    right = {
        "query": torch.zeros(2, 3, 5),
        "key": torch.zeros(2, 7, 5),
        "channel": torch.zeros(5),
        "mask": torch.ones(2, 7, dtype=torch.bool),
    }
    assert ops.unary_scores(**right).shape == (2, 3, 7)
    with pytest.raises(ValueError, match=rf"^{name} has (shape|dtype)"):
        ops.unary_scores(**(right | {name: tensor}))


@pytest.mark.parametrize(
    ("kind", "field"),
    [("exact", "queries"), ("exact", "weights"), ("low_rank", "factors"), ("low_rank", "channels"), ("exact", "masks")],
)
def test_a_missing_entry_is_named(make_group: Callable[..., Any], kind: str, field: str) -> None:
    group = make_group((7, 5, 3), lengths=[[7, 4], [5, 1], [3, 2]])
    short = replace(group, **{field: getattr(group, field)[:2]})
    with pytest.raises(ValueError, match=f"{field} has 2 entries for 3 modalities"):
        short.scores(kind)


def test_no_modality_at_all() -> None:
    with pytest.raises(ValueError, match="at least one modality"):
        ops.exact_scores([], [], [])


@pytest.mark.parametrize("kind", ["unary", "exact", "low_rank"])
def test_an_unknown_backend_is_named_with_the_known_ones(make_group: Callable[..., Any], kind: str) -> None:
    with pytest.raises(ValueError, match=r"backend 'cuda' is unknown: choose one of auto, reference, contracted"):
        make_group((7, 5)).scores(kind, "cuda")
