"""What all searches share: keys projected once, one decoder call a word, the model left as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hoca.generation import Hypotheses, Limits, beam_search, greedy, sample
from hoca.generation.step import inference
from hoca.models import Captioner, Memory

from .tiny import captioner, encoded, sentences, videos

LIMITS = Limits(max_length=5)
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
    assert found.attention is None
    model.train()  # dropout must not show
    attention = found.with_attention(model, memory).attention
    assert attention is not None
    assert model.training
    model.eval()
    torch.testing.assert_close(attention.merged, model.look(memory, found.words[:, :, :-1]).merged)
    rows, words = found.words.shape[1], found.words.shape[2] - 1
    for alpha in (attention.merged["image"], *attention.groups["image"].values()):
        assert alpha.shape == (3, rows, words, 4)
    shares = attention.modalities["image"] + attention.modalities["motion"]
    torch.testing.assert_close(shares, torch.ones(3, rows, words).double())
    assert (attention.modalities["motion"][1] == 0).all()


@searches
def test_bf16_autocast_and_float32(search: Search) -> None:
    model = captioner().float()
    features = {m: x.float() for m, x in videos().items()}
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = search(model, model.encode(features, {"motion": torch.tensor([0, 4, 1])}))
    assert found.logprob.dtype == torch.float32
    assert all(rows for rows in sentences(found))
