"""What all searches share: keys projected once, one decoder call a word, the model left as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hoca.generation import Hypotheses, SentenceLimits, beam_search, greedy, sample
from hoca.generation.step import inference
from hoca.models import Captioner, Memory, State

from .tiny import captioner, encoded, sentences, videos

LIMITS = SentenceLimits(max_length=5)
Search = Callable[[Captioner, Memory], Hypotheses]
searches = pytest.mark.parametrize(
    "search",
    [
        lambda model, memory: greedy(model, memory, LIMITS),
        lambda model, memory: beam_search(model, memory, LIMITS, width=4),
        lambda model, memory: sample(model, memory, LIMITS, count=4, seed=0),
    ],
    ids=["greedy", "beam", "sample"],
)


@searches
def test_keys_are_projected_once_per_video_and_the_decoder_runs_once_per_word(search: Search) -> None:
    model = captioner()
    projections: list[torch.Size] = []
    words: list[torch.Size] = []
    for key in model.attention.keys.values():
        key.register_forward_hook(lambda _, args, __: projections.append(args[0].shape[:1]))
    for lstm in model.encoder.lstms.values():
        lstm.register_forward_hook(lambda *_: projections.append(torch.Size([3])))
    model.decoder.lstm.register_forward_hook(lambda _, args, __: words.append(args[0].shape[:2]))
    found = search(model, encoded(model))
    assert projections == [(3,)] * 4  # two encoders, two projections, each for the three videos together
    assert words == [(3 * found.words.shape[1], 1)] * (found.words.shape[2] - 1)


@searches
def test_dropout_is_off_and_every_part_returns_to_its_mode(search: Search) -> None:
    model = captioner()
    memory = encoded(model)
    expected = search(model, memory)
    model.train()
    model.encoder.eval()  # as when it is frozen
    modes = [module.training for module in model.modules()]
    found = search(model, memory)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(found.words, expected.words)
    assert not found.logprob.requires_grad


@searches
def test_the_start_state_too_is_made_without_dropout_and_gradients(search: Search) -> None:
    """A captioner may compute in `begin`."""
    model = captioner().train()
    memory = encoded(model)
    begun: list[tuple[bool, bool]] = []

    def begin(memory: Memory, rows: int) -> State:
        begun.append((model.training, torch.is_grad_enabled()))
        return type(model).begin(model, memory, rows)

    model.begin = begin  # type: ignore[method-assign]
    search(model, memory)
    assert begun == [(False, False)]


def test_the_mode_returns_after_an_error_too() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Linear(2, 2))
    model[1].eval()
    with pytest.raises(RuntimeError), inference(model):
        raise RuntimeError
    assert (model.training, model[0].training, model[1].training) == (True, True, False)


@searches
def test_a_video_may_lack_what_it_likes(search: Search) -> None:
    model, features = captioner(), videos()
    with torch.no_grad():
        mixed = search(
            model, model.encode(features, {"image": torch.tensor([3, 0, 2]), "motion": torch.tensor([0, 4, 1])})
        )
        assert all(rows for rows in sentences(mixed))
        without = model.encode({"image": features["image"]}, {})
        zero = model.encode(features, {"motion": torch.zeros(3).long()})
    assert torch.equal(search(model, without).words, search(model, zero).words)


@searches
def test_what_was_looked_at_for_each_generated_word(search: Search) -> None:
    model = captioner()
    memory = encoded(model)
    found = search(model, memory)
    assert found.explanation is None
    model.train()  # dropout must not show
    explained = found.explained(model, memory)
    assert torch.equal(explained.words, found.words)
    explanation = explained.explanation
    assert explanation is not None
    assert model.training
    model.eval()
    torch.testing.assert_close(explanation.attention, model.look(memory, found.words[:, :, :-1]).attention)
    rows, words = found.words.shape[1], found.words.shape[2] - 1
    for alpha in (explanation.attention["image"], *explanation.groups["image"].values()):
        assert alpha.shape == (3, rows, words, 4)
    shares = explanation.shares["image"] + explanation.shares["motion"]
    torch.testing.assert_close(shares, torch.ones(3, rows, words).double())
    assert (explanation.shares["motion"][1] == 0).all()


@searches
def test_bf16_autocast_and_float32(search: Search) -> None:
    model = captioner().float()
    features = {m: x.float() for m, x in videos().items()}
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = search(model, model.encode(features, {"motion": torch.tensor([0, 4, 1])}))
    assert found.logprob.dtype == torch.float32
    assert all(rows for rows in sentences(found))
