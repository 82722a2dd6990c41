"""The LSTM kernels against torch's LSTM: on the GPU where there is one, interpreted elsewhere."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor, nn

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
triton = pytest.importorskip("triton")

from hoca.bench import relative_error  # noqa: E402
from hoca.ops.lstm.run import run_fused, run_lstm  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS = torch.tensor([7, 2, 1, 5, 7])


@pytest.fixture(autouse=True)
def _full_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (torch.cuda.is_available() or triton.knobs.runtime.interpret):
        pytest.skip("triton was imported without its interpreter")
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def gradients(outputs: tuple[Tensor, ...], upstream: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    return [*outputs, *torch.autograd.grad(outputs, inputs, upstream)]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("rows", "width", "hidden"), [(5, 3, 6), (37, 5, 19), (130, 2, 33), (25, 16, 128)])
def test_values_and_gradients_are_those_of_torch(bidirectional: bool, rows: int, width: int, hidden: int) -> None:
    lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=bidirectional).to(DEVICE)
    directions = 1 + bidirectional
    features = torch.randn(rows, 7, width, device=DEVICE, requires_grad=True)
    h, c = (torch.randn(directions, rows, hidden, device=DEVICE, requires_grad=True) for _ in range(2))
    upstream = [torch.randn(rows, 7, directions * hidden, device=DEVICE), torch.randn_like(h), torch.randn_like(c)]
    inputs = [features, h, c, *lstm.parameters()]
    output, last = lstm.double()(features.double(), (h.double(), c.double()))
    expected = gradients((output, *last), [u.double() for u in upstream], inputs)
    lstm.float()
    inputs = [features, h, c, *lstm.parameters()]
    output, last = run_fused(lstm, features, (h, c), None)
    for found, value in zip(gradients((output, *last), upstream, inputs), expected, strict=True):
        assert relative_error(found, value) < 1e-5


def test_no_gradient_shares_memory_with_another() -> None:
    """Clipping scales each in place."""
    lstm = nn.LSTM(3, 6, batch_first=True, bidirectional=True).to(DEVICE)
    zeros = torch.zeros(2, 5, 6, device=DEVICE)
    run_fused(lstm, torch.randn(5, 7, 3, device=DEVICE), (zeros, zeros), None)[0].sum().backward()
    bits = {(p.grad.data_ptr() + 4 * i) for p in lstm.parameters() for i in range(p.numel())}
    assert len(bits) == sum(p.numel() for p in lstm.parameters())


def test_padded_steps_are_as_in_torch_and_zero() -> None:
    lstm = nn.LSTM(4, 6, batch_first=True, bidirectional=True).double().to(DEVICE)
    features = torch.randn(5, 7, 4, device=DEVICE).double()
    real = (torch.arange(7) < LENGTHS[:, None]).to(DEVICE)
    upstream = torch.randn(5, 7, 12, device=DEVICE).double() * real[..., None]
    output = run_lstm(lstm, features, real=real)[0] * real[..., None]
    expected = gradients((output,), [upstream], list(lstm.parameters()))
    lstm.float()
    zeros = torch.zeros(2, 5, 6, device=DEVICE)
    output, _ = run_fused(lstm, features.float(), (zeros, zeros), real)
    assert bool((output[~real] == 0).all())
    for found, value in zip(gradients((output,), [upstream.float()], list(lstm.parameters())), expected, strict=True):
        assert relative_error(found, value) < 1e-5


def test_half_precision_is_within_its_rounding() -> None:
    """bfloat16 on a GPU; the interpreter multiplies its bits as if they were whole numbers, but knows float16."""
    half = torch.bfloat16 if DEVICE == "cuda" else torch.float16
    lstm = nn.LSTM(4, 6, batch_first=True, bidirectional=True).to(DEVICE)
    features = torch.randn(5, 7, 4, device=DEVICE)
    zeros = torch.zeros(2, 5, 6, device=DEVICE, dtype=half)
    upstream = torch.randn(5, 7, 12, device=DEVICE)
    expected = gradients((lstm(features)[0],), [upstream], list(lstm.parameters()))
    output, _ = run_fused(lstm, features.to(half), (zeros, zeros), None)
    for found, value in zip(gradients((output,), [upstream.to(half)], list(lstm.parameters())), expected, strict=True):
        assert relative_error(found, value) < 2e-2
