"""Working through the words in chunks changes the memory and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hoca import ops
from hoca.ops.allocations import AllocationWatch

KINDS = ("unary", "exact", "low_rank")
WHOLE = 1 << 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [(7,), (7, 5), (7, 5, 3), (7, 5, 3, 1)], ids=len)
@pytest.mark.parametrize("limit", [1, 5_000, 20_000])
def test_chunks_equal_the_whole_in_value_and_gradient(
    make_group: Callable[..., Any], kind: str, steps: tuple[int, ...], limit: int
) -> None:
    lengths = [[t, max(1, t - 2)] for t in steps]
    group = make_group(steps, words=11, lengths=lengths)
    with ops.workspace(WHOLE):
        scores, gradients = group.scores(kind), group.gradients(kind)
    with ops.workspace(limit):
        chunked_scores, chunked_gradients = group.scores(kind), group.gradients(kind)

    for actual, expected in zip(chunked_scores, scores, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-13)
    for name, expected in gradients.items():
        torch.testing.assert_close(chunked_gradients[name], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kind", "rank"), [("unary", 1), ("exact", 1), ("low_rank", 1), ("low_rank", 24)])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("steps", [(16,), (16, 8), (16, 16, 16), (24, 9, 3), (6, 6, 6, 6)], ids=str)
def test_the_workspace_bounds_forward_and_backward(
    make_group: Callable[..., Any], kind: str, steps: tuple[int, ...], masked: bool, rank: int
) -> None:
    limit = 1 << 20
    lengths = [[t, t] for t in steps] if masked else None
    group = make_group(steps, words=128, size=32, rank=rank, lengths=lengths)

    def peak_beyond_results() -> int:
        inputs = list(group.inputs(kind).values())
        with AllocationWatch() as watch:
            scores = group.scores(kind, "contracted")
            ones = [torch.ones_like(s) for s in scores]
            gradients = torch.autograd.grad(scores, inputs, ones, materialize_grads=True)
        # Scores exist as chunks and as a whole, and so do their gradients and those of the inputs.
        results = sum(tensor.nbytes for tensor in (*scores, *scores, *ones, *gradients, *gradients))
        return watch.peak - results

    with ops.workspace(WHOLE):
        assert peak_beyond_results() > limit
    with ops.workspace(limit):
        assert peak_beyond_results() <= limit


@pytest.mark.parametrize(
    ("fit", "chunk"),
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (6, 6), (10, 6), (11, 11), (12, 11)],  # of 11 words, in even chunks
)
def test_as_many_words_at_a_time_as_the_workspace_holds(make_group: Callable[..., Any], fit: int, chunk: int) -> None:
    group = make_group((7,), batch=2, words=11, size=32)
    word = 2 * 7 * 32  # elements of X [B, 1, T, D]; three times as many are alive at once, of 8 bytes each

    def largest(limit: int) -> int:
        with torch.no_grad(), ops.workspace(limit), AllocationWatch() as watch:
            group.scores("unary", "contracted")
        return watch.largest

    assert largest(fit * 3 * word * 8) == chunk * word
    assert largest((fit + 1) * 3 * word * 8 - 1) == chunk * word


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradients_too(make_group: Callable[..., Any], kind: str) -> None:
    group = make_group((16, 16, 16), words=256, size=32)
    with torch.no_grad(), ops.workspace(1 << 20), AllocationWatch() as watch:
        scores = group.scores(kind, "contracted")
    assert watch.peak - 2 * sum(s.nbytes for s in scores) <= 1 << 20


def test_the_limit_holds_within_the_block_only(make_group: Callable[..., Any]) -> None:
    group = make_group((16, 8), words=64, size=32)

    def largest() -> int:
        with AllocationWatch() as watch:
            group.scores("low_rank", "contracted")
        return watch.largest

    whole = largest()
    with ops.workspace(1):
        one_word = largest()
        with ops.workspace(WHOLE):
            assert largest() == whole
        assert largest() == one_word < whole
    assert largest() == whole
    with pytest.raises(RuntimeError, match="stop"), ops.workspace(1):
        raise RuntimeError("stop")
    assert largest() == whole


def test_a_chunk_can_be_differentiated_twice(make_group: Callable[..., Any], weighing: Callable[..., Any]) -> None:
    """Penalties on gradients go through the recomputed chunks as well."""
    group = make_group((4, 3, 2), words=5)

    def second_derivative() -> torch.Tensor:
        (first,) = torch.autograd.grad(weighing(group.scores("exact")), group.keys[0], create_graph=True)
        return torch.autograd.grad(first.square().sum(), group.queries[1])[0]

    whole = second_derivative()
    with ops.workspace(1):
        torch.testing.assert_close(second_derivative(), whole, rtol=1e-10, atol=1e-12)
