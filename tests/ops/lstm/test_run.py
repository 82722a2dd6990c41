from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hoca.ops.lstm.run import cpu_has_lstm, run_lstm

LENGTHS = torch.tensor([6, 2, 1, 5])


def test_over_padded_steps_it_is_the_packed_lstm_in_value_and_gradient() -> None:
    lstm = nn.LSTM(5, 4, batch_first=True, bidirectional=True).double()
    features = torch.randn(4, 6, 5).double()
    real = torch.arange(6) < LENGTHS[:, None]  # [B, T]
    upstream = torch.randn(4, 6, 8).double() * real[..., None]

    def packed(x: Tensor) -> Tensor:
        given = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(lstm(given)[0], batch_first=True, total_length=6)[0]

    results = []
    for run in (packed, lambda x: run_lstm(lstm, x, real=real)[0] * real[..., None]):
        x = features.clone().requires_grad_()
        output = run(x)
        results.append([output, *torch.autograd.grad(output, [x, *lstm.parameters()], upstream)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_without_padding_it_is_the_lstm_itself(bidirectional: bool) -> None:
    lstm = nn.LSTM(5, 4, batch_first=True, bidirectional=bidirectional)
    features = torch.randn(3, 6, 5)
    start = torch.randn(1 + bidirectional, 3, 4), torch.randn(1 + bidirectional, 3, 4)
    expected, (h, c) = lstm(features, start)
    output, (last_h, last_c) = run_lstm(lstm, features, start)
    for found, value in ((output, expected), (last_h, h), (last_c, c)):
        torch.testing.assert_close(found, value)
    torch.testing.assert_close(run_lstm(lstm, features)[0], lstm(features)[0])


def test_it_runs_in_the_type_that_autocast_asks_for() -> None:
    lstm = nn.LSTM(5, 4, batch_first=True, bidirectional=True)
    features = torch.randn(3, 6, 5)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = run_lstm(lstm, features)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), lstm(features)[0], rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_its_first_call_draws_nothing_at_random(dtype: torch.dtype) -> None:
    """In a resumed run the first call comes in the middle of an epoch: a draw there would change its dropout."""
    lstm, features = nn.LSTM(5, 4, batch_first=True), torch.randn(3, 6, 5)
    cpu_has_lstm.cache_clear()
    before = torch.get_rng_state()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        run_lstm(lstm, features)
    assert torch.equal(torch.get_rng_state(), before)
