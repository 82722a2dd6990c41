"""CST: an LSTM without biases over each word and the pooled video."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from hoca.models import create

from ..test_contract import captioner
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos

SIZES = {"hidden": 8, "embedding": 7, "max_steps": 6, "dropout": 0.0}


@pytest.mark.parametrize("encoder", ["bilstm", "linear"])
def test_it_is_an_lstm_without_biases_over_the_word_and_the_video(encoder: str) -> None:
    model: Any = create("cst", WIDTHS, VOCABULARY, **SIZES, encoder=encoder).double().eval()
    features, words = videos(), captions()
    memory = model.encode(features, RAGGED)
    width = (16 if encoder == "bilstm" else 8) * 3 + 3  # three means and three flags
    assert model.fused.width == width
    lstm = nn.LSTM(7 + width, 8, bias=False, batch_first=True).double()
    lstm.weight_ih_l0.data = torch.cat([model.word_gates.weight, model.video_gates.weight], dim=1).data
    lstm.weight_hh_l0.data = model.history_gates.weight.data
    for video in range(3):
        means = []
        for m, x in features.items():
            real = x[video : video + 1, : RAGGED[m][video]]
            if encoder == "linear":
                means.append(torch.relu(model.pooled.layers[m](real.mean(1))))
            else:
                means.append(model.pooled.encoder.lstms[m](real)[0].mean(1))
        fused = torch.cat([*means, torch.ones(1, 3).double()], dim=1)  # [1, width]
        given = torch.cat([model.words(words[video]), fused[:, None].expand(2, 4, -1)], dim=-1)  # [R, L, ...]
        hidden, _ = lstm(given)
        decoded = model.decode(memory, words, model.begin(memory, 2))
        torch.testing.assert_close(decoded.hidden[video], hidden)
        torch.testing.assert_close(decoded.logits[video], model.output(hidden))


def test_a_missing_modality_is_a_learned_vector_and_a_flag() -> None:
    model: Any = captioner("cst")
    features, words = videos(), captions()
    before = model(features, HOLES, words)
    with torch.no_grad():
        model.fused.missing["image"] += 1.0
    after = model(features, HOLES, words)
    assert not torch.allclose(before[0], after[0])  # which has no image
    assert torch.equal(before[1:], after[1:])


def test_it_shows_how_much_each_modality_adds_to_the_gates() -> None:
    model: Any = captioner("cst")
    memory = model.encode(videos(), HOLES)
    looked = model.look(memory, captions())
    assert (looked.attention, looked.shares) == ({}, {})  # it attends to nothing, and weighs alike for every word
    shown = looked.matrices["share in the pooled video"]
    assert shown.columns.names == tuple(WIDTHS)
    for video in range(3):
        sizes = []
        for place, m in enumerate(WIDTHS):
            alone = torch.zeros_like(memory.fused[video])
            alone[16 * place : 16 * (place + 1)] = memory.fused[video, 16 * place : 16 * (place + 1)]
            sizes.append(model.video_gates(alone).norm() * (HOLES[m][video] > 0))
        torch.testing.assert_close(shown.values[video, 1, 0], torch.stack(sizes) / sum(sizes))
