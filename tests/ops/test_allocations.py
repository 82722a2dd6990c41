"""Exact HOCA of three modalities makes no tensor of more than B·L·T·D elements, forward or backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hoca import ops
from hoca.ops.allocations import AllocationWatch

WHOLE = 1 << 60


def watched(group: Any, backend: str) -> AllocationWatch:
    inputs = list(group.inputs("exact").values())
    with AllocationWatch() as watch, ops.workspace(WHOLE):
        scores = group.scores("exact", backend)
        torch.autograd.grad(scores, inputs, [torch.ones_like(s) for s in scores])
    return watch


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize(("steps", "size"), [((8, 8, 8), 51), ((9, 7, 5), 13), ((20, 20, 20), 5)], ids=str)
def test_exact_hoca_makes_no_tensor_larger_than_the_mapped_features(
    make_group: Callable[..., Any], steps: tuple[int, ...], size: int, masked: bool
) -> None:
    lengths = [[t, t - 1, 1] for t in steps] if masked else None
    group = make_group(steps, batch=3, words=4, size=size, lengths=lengths)
    bound = 3 * 4 * max(steps) * size
    assert watched(group, "contracted").largest == bound
    assert watched(group, "reference").largest > bound  # the order-3 tensor, which the watch can see


def test_so_it_is_at_the_paper_s_size(make_group: Callable[..., Any]) -> None:
    """B 25, 30 words, 3 × 80 steps, D 512: on the meta device, where tensors have a size and take no memory."""
    group = make_group((1, 1, 1), dtype=torch.float32)
    shapes = {"queries": (25, 30, 512), "keys": (25, 80, 512), "weights": (80, 80)}
    for name, shape in shapes.items():
        setattr(group, name, [torch.empty(shape, device="meta", requires_grad=True) for _ in range(3)])
    bound = 25 * 30 * 80 * 512
    assert watched(group, "contracted").largest == bound
    assert watched(group, "reference").largest >= 25 * 30 * 80**3 > bound


def test_the_watch_counts_what_is_alive_and_no_view_twice() -> None:
    given = torch.zeros(100)
    with AllocationWatch() as watch:
        given.add_(1).view(10, 10).t()
        assert (watch.largest, watch.peak) == (0, 0)
        doubled = given * 2  # 400 bytes
        doubled[:50].reshape(5, 10)
        assert (watch.largest, watch.peak) == (100, 400)
        (doubled[:50] + 1).sum()  # 200 and 4 more, and gone
        assert watch.peak == 604
        del doubled
        given * 3
    assert watch.peak == 604
    assert watch.largest_made_by == "aten.mul.Tensor [100]"
