from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hoca.ops import cross_entropy as module
from hoca.ops.cross_entropy import cross_entropy, reference

PAD = 0


def _given(rows: int, words: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, targets with some padding, and the gradient of the losses."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(1, words, (rows,), generator=generator)
    targets[::3] = PAD
    draw = (4 * torch.randn(rows, words, generator=generator, dtype=torch.float64)).to(dtype)
    return draw, targets, torch.randn(rows, generator=generator).to(torch.promote_types(dtype, torch.float32))


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])  # a row, some rows, all rows at a time
def test_losses_and_gradients_are_torchs(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, close: float, smoothing: float, chunk: int
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    logits, targets, given = _given(23, 37, dtype)
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    found = cross_entropy(ours, targets, PAD, smoothing)
    found.backward(given)
    wide = theirs.to(given.dtype)
    expected = reference(wide, targets, PAD, smoothing)
    expected.backward(given)
    assert ours.grad is not None
    assert theirs.grad is not None
    assert found.dtype == given.dtype
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=close, atol=close)


def test_words_that_are_impossible_have_no_share() -> None:
    """Rows of W_p that are copied for alignment score -inf."""
    logits, targets, given = _given(6, 9, torch.float32)
    padded = torch.cat([logits, torch.full((6, 3), float("-inf"))], dim=1).requires_grad_()
    found = cross_entropy(padded, targets, PAD)
    torch.testing.assert_close(found, reference(logits, targets, PAD))
    found.backward(given)
    assert padded.grad is not None
    assert not padded.grad[:, 9:].any()


def test_padding_and_no_rows_at_all_have_no_loss_and_no_gradient() -> None:
    logits = torch.randn(4, 5, requires_grad=True)
    losses = cross_entropy(logits, torch.zeros(4, dtype=torch.long), PAD, 0.1)
    losses.sum().backward()
    assert not losses.any()
    assert logits.grad is not None
    assert not logits.grad.any()
    assert cross_entropy(logits[:0], torch.zeros(0, dtype=torch.long), PAD).shape == (0,)
