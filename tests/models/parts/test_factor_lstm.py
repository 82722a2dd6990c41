"""An LSTM whose weights are made by a code: for one code it is an LSTM with those weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hoca.models.parts.factor_lstm import Factored, FactorLSTM

from ..tiny import HOLES, WIDTHS

CODE, FACTORS, HIDDEN, INPUTS = 5, 6, 4, 3


def cell() -> FactorLSTM:
    torch.manual_seed(0)
    sizes = {"inputs": INPUTS, "hidden": HIDDEN, "factors": FACTORS, "code": CODE}
    made = FactorLSTM(**sizes, active=2.0, videos=WIDTHS).double()
    with torch.no_grad():
        made.bias.normal_()
    return made


def weights(part: Factored, code: Tensor) -> Tensor:
    """A diag(s B) C' of each gate, as an LSTM has it: [4H, I]."""
    gates = []
    for gate in range(4):
        rows = slice(gate * FACTORS, (gate + 1) * FACTORS)
        a, b, c = part.a.weight[rows].T, part.b.weight[rows].T, part.c[gate]  # [I, F], [K, F], [F, H]
        gates.append((a @ torch.diag(code @ b) @ c).T)
    return torch.cat(gates)


def pooled() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    return (
        {m: torch.randn(3, width).double() for m, width in WIDTHS.items()},
        {m: length > 0 for m, length in HOLES.items()},
    )


def test_with_any_code_it_is_an_lstm_with_the_weights_that_the_code_makes() -> None:
    part, (videos, present) = cell(), pooled()
    code, inputs = torch.rand(3, CODE).double(), torch.randn(3, 2, 5, INPUTS).double()
    start = torch.randn(3, 2, HIDDEN).double(), torch.randn(3, 2, HIDDEN).double()
    hidden, end = part(inputs, part.coded(code, videos, present), start)
    for video in range(3):
        lstm = nn.LSTM(INPUTS, HIDDEN, batch_first=True).double()
        lstm.weight_ih_l0.data = weights(part.words, code[video])
        lstm.weight_hh_l0.data = weights(part.history, code[video])
        terms = [weights(part.videos[m], code[video]) @ videos[m][video] for m in WIDTHS if present[m][video]]
        lstm.bias_ih_l0.data, lstm.bias_hh_l0.data = part.bias.data, sum(terms)
        expected, (h, c) = lstm(inputs[video], tuple(part[video][None] for part in start))
        torch.testing.assert_close(hidden[video], expected)
        torch.testing.assert_close(end[0][video], h[0])
        torch.testing.assert_close(end[1][video], c[0])


def test_without_a_code_neither_word_nor_history_matters() -> None:
    part, (videos, present) = cell(), pooled()
    coded = part.coded(torch.zeros(3, CODE).double(), videos, present)
    c = torch.randn(3, 2, HIDDEN).double()
    one, two = (
        part(torch.randn(3, 2, 5, INPUTS).double(), coded, (torch.randn(3, 2, HIDDEN).double(), c))[0] for _ in range(2)
    )
    torch.testing.assert_close(one, two)


def test_the_numbering_of_the_code_does_not_matter() -> None:
    part, (videos, present) = cell(), pooled()
    code, inputs, order = torch.rand(3, CODE).double(), torch.randn(3, 1, 4, INPUTS).double(), torch.randperm(CODE)
    start = torch.zeros(3, 1, HIDDEN).double(), torch.zeros(3, 1, HIDDEN).double()
    before = part(inputs, part.coded(code, videos, present), start)[0]
    with torch.no_grad():
        for each in (part.words, part.history, *part.videos.values()):
            each.b.weight.copy_(each.b.weight[:, order])
    torch.testing.assert_close(part(inputs, part.coded(code[:, order], videos, present), start)[0], before)


def test_before_the_gates_it_is_linear_in_the_code() -> None:
    """A mixture of codes makes the mixture of their pre-activations: each entry is an expert, the code weighs them."""
    part = cell()
    x, code = torch.randn(INPUTS).double(), torch.softmax(torch.randn(CODE), 0).double()
    experts = torch.stack([part.words(x, part.words.b(one)) for one in torch.eye(CODE).double()])
    torch.testing.assert_close(part.words(x, part.words.b(code)), code @ experts)
