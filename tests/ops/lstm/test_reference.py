"""The plain LSTM against torch's, packed, and the fast way against the plain one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hoca.ops.lstm import lstm_reference, run_lstm

LENGTHS = torch.tensor([6, 2, 1, 5])
REAL = torch.arange(6) < LENGTHS[:, None]  # [B, T]

both_directions = pytest.mark.parametrize("bidirectional", [True, False], ids=["both-ways", "forward"])


def layer(bidirectional: bool) -> nn.LSTM:
    return nn.LSTM(5, 4, batch_first=True, bidirectional=bidirectional).double()


def state(bidirectional: bool, batch: int = 4) -> tuple[Tensor, Tensor]:
    h, c = torch.randn(2, 1 + bidirectional, batch, 4).double()
    return h.requires_grad_(), c.requires_grad_()


def results(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Values, and the gradients of an uneven sum of them."""
    total = sum((x * torch.linspace(-1, 2, x.numel()).double().view_as(x).cos()).sum() for x in outputs)
    assert isinstance(total, Tensor)
    return [*(x.detach() for x in outputs), *torch.autograd.grad(total, inputs)]


@both_directions
@pytest.mark.parametrize("steps", [1, 7])
def test_without_padding_values_and_gradients_are_those_of_torch(bidirectional: bool, steps: int) -> None:
    lstm, start = layer(bidirectional), state(bidirectional)
    features = torch.randn(4, steps, 5).double().requires_grad_()
    inputs = [features, *start, *lstm.parameters()]
    expected, found = (
        results([output, *end], inputs)
        for output, end in (lstm(features, start), lstm_reference(lstm, features, start))
    )
    for each, value in zip(found, expected, strict=True):
        torch.testing.assert_close(each, value)


def packed(lstm: nn.LSTM, features: Tensor, start: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
    given = pack_padded_sequence(features, LENGTHS, batch_first=True, enforce_sorted=False)
    output, (h, c) = lstm(given, start)
    return pad_packed_sequence(output, batch_first=True, total_length=6)[0], h, c


@both_directions
@pytest.mark.parametrize("started", [True, False], ids=["from-a-state", "from-zero"])
def test_with_padding_values_states_and_gradients_are_those_of_packing(bidirectional: bool, started: bool) -> None:
    lstm, start = layer(bidirectional), state(bidirectional) if started else None
    features = torch.randn(4, 6, 5).double().requires_grad_()
    inputs = [features, *(start or ()), *lstm.parameters()]
    expected = results(packed(lstm, features, start), inputs)
    output, end = lstm_reference(lstm, features, start, REAL)
    found = results([output * REAL[..., None], *end], inputs)
    for each, value in zip(found, expected, strict=True):
        torch.testing.assert_close(each, value)


@both_directions
def test_a_video_without_a_real_step_keeps_its_start(bidirectional: bool) -> None:
    lstm, start = layer(bidirectional), state(bidirectional, 1)
    _, end = lstm_reference(lstm, torch.randn(1, 3, 5).double(), start, torch.zeros(1, 3, dtype=torch.bool))
    torch.testing.assert_close(end, start)


Run = Callable[..., tuple[Tensor, tuple[Tensor, Tensor]]]


@both_directions
def test_run_lstm_is_the_reference_without_padding(bidirectional: bool) -> None:
    lstm, start = layer(bidirectional), state(bidirectional)
    features = torch.randn(4, 6, 5).double().requires_grad_()
    inputs = [features, *start, *lstm.parameters()]
    expected, found = (
        results([output, *end], inputs)
        for output, end in (run(lstm, features, start) for run in (lstm_reference, run_lstm))
    )
    for each, value in zip(found, expected, strict=True):
        torch.testing.assert_close(each, value)


@both_directions
def test_run_lstm_is_the_reference_over_padded_steps(bidirectional: bool) -> None:
    lstm = layer(bidirectional)
    features = torch.randn(4, 6, 5).double().requires_grad_()
    inputs = [features, *lstm.parameters()]
    expected, found = (
        results([run(lstm, features, real=REAL)[0] * REAL[..., None]], inputs) for run in (lstm_reference, run_lstm)
    )
    for each, value in zip(found, expected, strict=True):
        torch.testing.assert_close(each, value)


@pytest.mark.parametrize("run", [lstm_reference, run_lstm])
def test_no_gradient_reaches_a_padded_step(run: Run) -> None:
    features = torch.randn(4, 6, 5).double().requires_grad_()
    output, _ = run(layer(True), features, real=REAL)
    (gradient,) = torch.autograd.grad(output[REAL].square().sum(), features)
    assert (gradient[~REAL] == 0).all()
    assert (gradient[REAL] != 0).any(-1).all()
