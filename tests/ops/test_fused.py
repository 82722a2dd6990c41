"""The fused kernels give the reference's scores and gradients: on the GPU where there is one, interpreted elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hoca import ops
from hoca.ops.allocations import AllocationWatch

pytest.importorskip("triton")

KINDS = ("unary", "exact", "low_rank")
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Sizes that are a multiple of nothing: [modality][video]; of the ragged ones, a video lacks the second modality.
STEPS = ((19,), (19, 5), (19, 5, 11))
LENGTHS = ([19, 3], [5, 0], [1, 11])


def relative_error(actual: Tensor, expected: Tensor) -> float:
    actual, expected = actual.detach().double().cpu(), expected.detach().double().cpu()
    finite = expected.isfinite()
    assert torch.equal(actual.isfinite(), finite)
    return float((actual - expected)[finite].norm() / expected[finite].norm().clamp(min=1e-30))


def assert_near_reference(
    group: Any, kind: str, dtype: torch.dtype = torch.float32, fused: Any = None, *, slack: float = 1.0
) -> None:
    """`group` in float64 by the reference, against `fused`, which is the same in another form, by the kernels."""
    fused = fused or on_device(group.to(dtype))
    (scores, gradients), (expected_scores, expected_gradients) = (
        fused.both(kind, "fused"),
        group.both(kind, "reference"),
    )
    for actual, expected in zip(scores, expected_scores, strict=True):
        assert relative_error(actual, expected) <= slack * TOLERANCE[dtype]
    for (name, actual), tensor in zip(gradients.items(), fused.inputs(kind).values(), strict=True):
        assert actual.dtype == tensor.dtype, name
        assert relative_error(actual, expected_gradients[name]) <= slack * TOLERANCE[dtype], name


def on_device(group: Any) -> Any:
    moved = group.map(lambda tensor: tensor.detach().to(DEVICE).requires_grad_())
    return replace(moved, masks=group.masks and [mask.to(DEVICE) for mask in group.masks])


@pytest.fixture(autouse=True)
def _programs_of_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles of large batches, though these are small."""
    monkeypatch.setattr("hoca.ops.fused.group.FEW", 0)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", ["unary", "low_rank"])
@pytest.mark.parametrize("steps", STEPS, ids=len)
def test_few_words_have_larger_programs(
    make_group: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, steps: Sequence[int], kind: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr("hoca.ops.fused.group.FEW", 256)
    given = make_group(steps, words=5, size=9, rank=2, lengths=LENGTHS[: len(steps)])
    assert_near_reference(given.to(dtype).to(torch.float64), kind, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", STEPS, ids=len)
def test_values_and_every_gradient_are_near_the_reference(
    make_group: Callable[..., Any], kind: str, steps: Sequence[int], dtype: torch.dtype
) -> None:
    group = make_group(steps, words=5, size=9, rank=2, lengths=LENGTHS[: len(steps)])
    # What rounding the arguments costs is not the kernels' doing.
    group = group.to(dtype).to(torch.float64)
    assert_near_reference(group, kind, dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [(17,), (3, 17), (3, 17, 5)], ids=len)
def test_without_masks(make_group: Callable[..., Any], kind: str, steps: Sequence[int]) -> None:
    assert_near_reference(make_group(steps, words=2, size=8, rank=1), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_fill_their_tiles_and_a_second_block_of_channels(make_group: Callable[..., Any], kind: str) -> None:
    assert_near_reference(make_group((16, 16), batch=1, words=2, size=70, rank=1), kind)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("steps", "size"), [((19, 5, 33), 9), ((16, 17), 70), ((40,), 67)], ids=str)
def test_bfloat16_keys_two_in_a_word(
    make_group: Callable[..., Any], steps: Sequence[int], size: int, masked: bool
) -> None:
    lengths = [[count // 2] for count in steps] if masked else None
    group = make_group(steps, batch=1, words=2, size=size, rank=1, lengths=lengths).to(torch.bfloat16).to(torch.float64)
    assert_near_reference(group, "low_rank", torch.bfloat16)


def test_exact_attention_of_more_steps_than_one_tile_has(make_group: Callable[..., Any]) -> None:
    lengths = [[70], [66], [3]]
    assert_near_reference(make_group((70, 66, 3), batch=1, words=1, size=3, rank=1, lengths=lengths), "exact")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_exact_attention_of_whole_tiles(make_group: Callable[..., Any], dtype: torch.dtype) -> None:
    """As models have them: what the compiler makes of aligned sizes is other code than that of odd ones."""
    size = 64 if DEVICE == "cuda" else 16  # interpreted, more channels are only more of the same
    group = make_group((80, 80, 80), batch=1, words=1, size=size, rank=1).to(dtype).to(torch.float64)
    assert_near_reference(group, "exact", dtype)


@settings(deadline=None, max_examples=6)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_any_sizes(make_group: Callable[..., Any], data: st.DataObject, kind: str) -> None:
    steps = data.draw(st.lists(st.integers(1, 18), min_size=1, max_size=3))
    batch = data.draw(st.integers(1, 2))
    lengths = [data.draw(st.lists(st.integers(0, t), min_size=batch, max_size=batch)) for t in steps]
    sizes = {name: data.draw(st.integers(1, most)) for name, most in (("words", 3), ("size", 9), ("rank", 3))}
    # One channel's terms may cancel: what they leave is known relative to them, not to itself.
    assert_near_reference(make_group(steps, batch=batch, lengths=lengths, **sizes), kind, slack=20)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", ["unary", "low_rank"])
def test_views_of_wider_tensors_need_no_copy(make_group: Callable[..., Any], kind: str, dtype: torch.dtype) -> None:
    """A model's projections of all groups lie side by side: [B, Q, slots, D]."""
    group = make_group((7, 5), words=2, size=9, rank=1, lengths=[[7, 4], [5, 2]])

    def slot(tensor: Tensor) -> Tensor:
        wide = torch.full((*tensor.shape[:2], 3, tensor.shape[2]), float("nan"), dtype=dtype, device=DEVICE)
        wide[:, :, 1] = tensor.detach()
        return wide[:, :, 1].requires_grad_()

    fused = on_device(group.to(dtype))
    fused = replace(fused, queries=[slot(q) for q in fused.queries], keys=[slot(k) for k in fused.keys])
    assert not fused.queries[0].is_contiguous()
    assert_near_reference(group, kind, dtype, fused=fused)


def spoilt(key: Tensor, mask: Tensor) -> Tensor:
    """The same with NaN and 1e30 in turn in the padding, which has two steps and more: neither hides the other."""
    garbage = torch.tensor([float("nan"), 1e30], dtype=key.dtype, device=key.device)
    steps = garbage[torch.arange(key.shape[1], device=key.device) % 2]
    return torch.where(mask[:, :, None], key.detach(), steps[:, None]).requires_grad_()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_garbage_in_the_padding_does_not_matter(make_group: Callable[..., Any], kind: str, dtype: torch.dtype) -> None:
    clean = on_device(make_group((7, 5), words=2, rank=1, lengths=[[7, 4], [1, 5]]).to(dtype))
    expected_scores, expected_gradients = clean.both(kind, "fused")
    dirty = replace(clean, keys=[spoilt(key, mask) for key, mask in zip(clean.keys, clean.masks, strict=True)])
    scores, gradients = dirty.both(kind, "fused")
    for actual, expected in zip(scores, expected_scores, strict=True):
        assert torch.equal(actual, expected)
    for name, gradient in gradients.items():
        assert torch.equal(gradient, expected_gradients[name]), name
    for i, mask in enumerate(clean.masks):
        assert (expected_gradients[f"keys[{i}]"][~mask] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_activations_with_float32_parameters(make_group: Callable[..., Any], kind: str) -> None:
    """As under autocast: the scores are then float32."""
    group = make_group((7, 5), words=2, size=8, rank=1, lengths=[[7, 4], [5, 2]]).to(torch.bfloat16).to(torch.float64)
    mixed = on_device(group.to(torch.float32))
    half = {
        name: [t.detach().bfloat16().requires_grad_() for t in getattr(mixed, name)] for name in ("queries", "keys")
    }
    mixed = replace(mixed, **half)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert all(scores.dtype == torch.float32 for scores in mixed.scores(kind, "fused"))
        assert_near_reference(group, kind, torch.bfloat16, mixed)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("offset", [0.0, 15.0, 200.0, -3e4], ids=str)
def test_large_arguments_neither_overflow_nor_lose_their_difference(offset: float, dtype: torch.dtype) -> None:
    """tanh(q + k) where q and k are large and of opposite sign."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.randint(-64, 64, (2, 3, 9), generator=generator) / 4.0
    query = (spread + offset).to(DEVICE, dtype).requires_grad_()
    key = (torch.randn(2, 5, 9, generator=generator).round(decimals=1).mul(8).round() / 8 - offset).to(DEVICE, dtype)
    channel = torch.ones(9, device=DEVICE)
    scores = ops.unary_scores(query, key, channel, backend="fused")
    expected = ops.unary_scores(query.double(), key.double(), channel.double(), backend="reference")
    assert relative_error(scores, expected) <= TOLERANCE[dtype]
    (gradient,) = torch.autograd.grad(scores.sum(), query)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), query)
    assert relative_error(gradient, expected_gradient) <= TOLERANCE[dtype]


@pytest.mark.parametrize("kind", ["unary", "low_rank"])
def test_the_tanh_tensor_is_never_written(make_group: Callable[..., Any], kind: str) -> None:
    batch, words, size, steps = 1, 16, 64, (12, 10)
    group = on_device(make_group(steps, batch=batch, words=words, size=size, rank=1).to(torch.float32))
    with AllocationWatch() as watch:
        group.gradients(kind, "fused")
    assert watch.largest < batch * words * min(steps) * size / 4, watch.largest_made_by


@pytest.mark.parametrize(
    ("steps", "rank", "kind"), [((3, 2, 4, 2), 2, "exact"), ((3, 2), 9, "low_rank"), ((300, 300), 1, "low_rank")]
)
def test_what_the_kernels_do_not_cover_is_contracted(
    make_group: Callable[..., Any], steps: Sequence[int], rank: int, kind: str
) -> None:
    assert_near_reference(make_group(steps, words=2, size=3, rank=rank), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_float64_keeps_its_precision(make_group: Callable[..., Any], kind: str) -> None:
    group = make_group((7, 5))
    for actual, expected in zip(on_device(group).scores(kind, "fused"), group.scores(kind, "reference"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "batch", "words"), [((7, 0), 2, 3), ((4, 2), 0, 3), ((4, 2), 2, 0)], ids=str)
def test_empty_dimensions(
    make_group: Callable[..., Any], kind: str, steps: Sequence[int], batch: int, words: int
) -> None:
    group = on_device(make_group(steps, batch=batch, words=words).to(torch.float32))
    for t, scores in zip(steps, group.scores(kind, "fused"), strict=True):
        assert scores.shape == (batch, words, t)
    assert all(gradient.isfinite().all() for gradient in group.gradients(kind, "fused").values())


def test_without_a_gpu_and_the_interpreter_the_error_says_what_to_do() -> None:
    program = (
        "import torch; from hoca import ops; x = torch.zeros(1, 1, 1); ops.unary_scores(x, x, x[0, 0], backend='fused')"
    )
    nowhere = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    nowhere["CUDA_VISIBLE_DEVICES"] = ""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=nowhere)
    assert ran.returncode != 0
    assert "needs tensors on a GPU (or TRITON_INTERPRET=1): use backend='auto'" in ran.stderr
