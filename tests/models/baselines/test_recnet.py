"""RecNet: an SA-LSTM in what it says, with a loss that asks its states for the video."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hoca.models import create
from hoca.models.baselines.recnet import LocalReconstructor
from hoca.models.interface import Decoded
from hoca.training.objectives import TeacherForcing, summed

from ..test_contract import all_losses, batch_of, captioner, objective, sizes, whole_captions
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, videos

both = pytest.mark.parametrize("name", ["recnet-global", "recnet-local"])


def reconstruction(model: Any, words: Tensor, features: dict[str, Tensor] | None = None) -> Tensor:
    losses = TeacherForcing(model, objective(model))(batch_of(features or videos(), RAGGED, words))
    return losses["reconstruction"].loss


@both
def test_without_weight_it_is_an_sa_lstm_to_the_last_bit(name: str) -> None:
    features, words, results = videos(), whole_captions(), []
    for kind, options in (("sa-lstm", {}), (name, {"reconstruction": 0.0})):
        torch.manual_seed(0)
        model = create(kind, WIDTHS, VOCABULARY, **sizes(kind) | options).double()
        loss = all_losses(model, features, RAGGED, words)
        loss.backward()
        results.append((loss, {key: p.grad for key, p in model.named_parameters() if p.grad is not None}))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1].keys() == results[1][1].keys()
    for key, gradient in results[0][1].items():
        assert torch.equal(gradient, results[1][1][key]), key


@both
def test_its_weight_is_that_of_its_paper_and_counts_in_the_loss(name: str) -> None:
    model, words, features = captioner(name), whole_captions(), videos()
    losses = TeacherForcing(model, objective(model))(batch_of(features, RAGGED, words))
    assert losses["reconstruction"].weight == {"recnet-global": 0.2, "recnet-local": 0.1}[name]
    expected = losses["words"].loss + losses["reconstruction"].weight * losses["reconstruction"].loss
    torch.testing.assert_close(summed(losses), expected)


def test_a_step_attends_to_real_words_alone() -> None:
    part = LocalReconstructor(captioner("recnet-local").config, 5).double()
    said = torch.tensor([[True, True, False], [True, False, False]])
    _, weights = part.attend(torch.randn(2, 3, 8).double(), said, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4).double())
    assert weights[~said[:, None].expand_as(weights)].abs().max() == 0


def test_what_is_shown_is_what_the_loss_is_made_of() -> None:
    model: Any = captioner("recnet-local")
    words, features = whole_captions(), videos()
    looked = model.look(model.encode(features, HOLES), words[:, :, :-1])
    said = words[:, :, 1:] != VOCABULARY.pad
    total = counted = torch.zeros(3, 2)
    for m, length in HOLES.items():
        error = looked.matrices[f"error of {m} told again"].values[:, :, 0]  # [B, R, T]
        total = total + error.sum(2) / length.clamp(min=1)[:, None]
        counted = counted + (length > 0)[:, None]
        beta = looked.matrices[f"words that tell {m} again"].values  # [B, R, L, T]
        assert not beta.transpose(2, 3)[~said[:, :, None].expand(-1, -1, beta.shape[3], -1)].any()
    expected = TeacherForcing(model, objective(model))(batch_of(features, HOLES, words))["reconstruction"].loss
    torch.testing.assert_close((total / counted)[said.any(2)].sum(), expected, check_dtype=False)


def test_what_the_words_of_a_step_lack_to_one_went_to_the_end_of_the_sentence() -> None:
    model: Any = captioner("recnet-local")
    words = torch.tensor([VOCABULARY.bos, *VOCABULARY.encode("a red dog")[1:-1], VOCABULARY.eos]).expand(3, 1, -1)
    looked = model.look(model.encode(videos(), HOLES), words)
    for m, length in HOLES.items():
        name = f"words that tell {m} again"
        for video in range(3):
            shown, real = looked.of_caption(video, 3).matrices[name], int(length[video])
            end = looked.matrices[name].values[video, 0, 3, :real]
            assert end.min() > 0 if real else True
            torch.testing.assert_close(shown.values[:, :real].sum(0), 1 - end)
            assert shown.sums is None
            assert "to 1 went to the end of the sentence" in shown.about


def test_a_captioner_that_reconstructs_no_steps_shows_none() -> None:
    untaught = create("recnet-local", WIDTHS, VOCABULARY, **sizes("recnet-local"), reconstruction=0.0).double()
    for model in (captioner("recnet-global"), untaught):
        looked: Any = model.look(model.encode(videos(), RAGGED), whole_captions()[:, :, :-1])
        assert looked.matrices == {}
        assert looked.attention


@both
def test_more_padding_changes_nothing(name: str) -> None:
    model, words, features = captioner(name), whole_captions(), videos()
    longer = torch.nn.functional.pad(words, (0, 4), value=VOCABULARY.pad)
    torch.testing.assert_close(reconstruction(model, longer, features), reconstruction(model, words, features))


def copying_loss(seed: int) -> float:
    """What is left of the local loss after training, where each state holds the step of the same number."""
    torch.manual_seed(seed)
    options = {"hidden": 7, "attention": 6, "embedding": 4, "max_steps": 4, "reconstructor_attention": 6}
    model: Any = create("recnet-local", {"image": 3}, VOCABULARY, **options, distance="mse", reconstruction=1.0)
    features = {"image": 0.5 * torch.tanh(torch.randn(1, 4, 3))}
    places = 3 * torch.eye(4)[None]  # where a state stands, so that it can be found
    hidden = torch.cat([features["image"], places], dim=-1)[:, None]  # [B, 1, L, H]
    batch = batch_of(features, {}, torch.full((1, 1, 5), VOCABULARY.unk + 1))
    optimizer = torch.optim.Adam(model.reconstructors.parameters(), lr=0.02)
    for _ in range(600):
        optimizer.zero_grad()
        loss = model.losses(None, batch, Decoded(hidden, None, hidden))["reconstruction"].loss
        loss.backward()
        optimizer.step()
    return loss.item()


def test_states_that_carry_the_frames_are_told_again() -> None:
    assert any(copying_loss(seed) < 1e-3 for seed in range(4))  # a start may be stuck with its eyes on one word


def test_the_global_one_predicts_the_mean_of_the_real_steps() -> None:
    model: Any = captioner("recnet-global")
    part = model.reconstructors["image"]
    hidden, said = torch.randn(2, 3, 8).double(), torch.tensor([[True, True, False], [True, True, True]])
    features, real = torch.randn(2, 4, 5).double(), torch.tensor([[True] * 2 + [False] * 2, [True] * 4])
    predicted, target, here = part(hidden, said, features, real)
    torch.testing.assert_close(target[0, 0], features[0, :2].mean(0))
    states, _ = part.lstm(torch.cat([hidden[0, :2], hidden[0, :2].mean(0).expand(2, -1)], dim=-1)[None])
    torch.testing.assert_close(predicted[0, 0], states[0].mean(0))
    assert here.tolist() == [[True], [True]]


@both
def test_a_missing_modality_is_no_part_of_the_loss(name: str) -> None:
    model, words, features = captioner(name), whole_captions(), videos()
    whole = TeacherForcing(model, objective(model))(batch_of(features, HOLES, words))["reconstruction"].loss
    parts = []
    for video in range(3):
        kept = {m: features[m][video : video + 1] for m in features if HOLES[m][video] > 0}
        lengths = {m: HOLES[m][video : video + 1] for m in kept}
        batch = batch_of(kept, lengths, words[video : video + 1])
        parts.append(TeacherForcing(model, objective(model))(batch)["reconstruction"].loss)
    torch.testing.assert_close(whole, torch.stack(parts).sum())
