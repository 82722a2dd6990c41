from __future__ import annotations

import torch
from torch import nn

from hoca.models.parts.lstm import AheadLSTMCell, unroll


def test_unrolled_it_is_torchs_lstm() -> None:
    lstm = nn.LSTM(3, 4, batch_first=True)
    x, start = torch.randn(2, 5, 6, 3), (torch.randn(2, 5, 4), torch.randn(2, 5, 4))
    given = nn.functional.linear(x, lstm.weight_ih_l0, lstm.bias_ih_l0)
    history = lambda h: nn.functional.linear(h, lstm.weight_hh_l0, lstm.bias_hh_l0)  # noqa: E731
    hidden, end = unroll(given, start, history)
    expected, ended = lstm(x.flatten(0, 1), tuple(part.flatten(0, 1)[None] for part in start))
    torch.testing.assert_close(hidden.flatten(0, 1), expected)
    for found, other in zip(end, ended, strict=True):
        torch.testing.assert_close(found.flatten(0, 1), other[0])


def test_the_ahead_cell_is_an_lstm_cell_whose_input_comes_in_two_parts() -> None:
    ours, theirs = AheadLSTMCell(3, 2, 4).double(), torch.nn.LSTMCell(5, 4).double()
    with torch.no_grad():
        theirs.weight_ih.copy_(torch.cat([ours.known.weight, ours.late.weight], dim=1))
        theirs.weight_hh.copy_(ours.recurrent.weight)
        theirs.bias_ih.copy_(ours.known.bias)
        theirs.bias_hh.zero_()
    x, h, c = (torch.randn(6, size).double() for size in (5, 4, 4))
    found = ours(ours.ahead(x[:, :3]), x[:, 3:], (h, c))
    torch.testing.assert_close(found, theirs(x, (h, c)))
