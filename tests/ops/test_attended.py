"""Scores from the steps themselves are those from the contexts, gradients included."""

from __future__ import annotations

import pytest
import torch

from hoca.ops.attended import AttendedScores, attended_scores, saves_work

from ..models.tiny import captioner, captions, videos

B, Q, H, V, WIDTH = 2, 9, 3, 11, 4
STEPS = (3, 5)


def arguments(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = [(V, H + 2 * WIDTH), (V,), (B, Q, H), *((B, Q, t) for t in STEPS), *((B, t, WIDTH) for t in STEPS)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def from_contexts(weight: torch.Tensor, bias: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
    hidden, first, second, steps, more = tensors
    return torch.nn.functional.linear(torch.cat([hidden, first @ steps, second @ more], dim=-1), weight, bias)


@pytest.mark.parametrize("added", [0, 5])
def test_scores_and_every_gradient_are_those_of_the_contexts(added: int) -> None:
    weight, bias, *tensors = given = arguments()
    copy = torch.cat([weight.detach(), torch.zeros(added, weight.shape[1]).double()])
    padded = torch.cat([bias.detach(), torch.full((added,), float("-inf")).double()])
    pairs = list(zip(tensors[1:3], tensors[3:], strict=True))
    scores = attended_scores(tensors[0], pairs, (copy, padded), weight, bias)
    expected = from_contexts(*given)
    assert torch.isneginf(scores[..., V:]).all()
    torch.testing.assert_close(scores[..., :V], expected)
    seen = torch.randn(expected.shape, dtype=torch.float64)
    found = torch.autograd.grad(scores, given, torch.nn.functional.pad(seen, (0, added)))
    for one, other in zip(found, torch.autograd.grad(expected, given, seen), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)  # those of W_p and b are float32


def test_it_is_chosen_where_a_video_has_more_words_than_steps() -> None:
    """An MSR-VTT video's 20 captions of some 10 words, against one caption."""
    assert saves_work(220, (80, 80, 80), 1024)
    assert not saves_work(30, (80, 80, 80), 1024)


def test_a_captioner_scores_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a training step computes it, in bfloat16, within what that rounds; gradients of all weights too."""
    model, said = captioner(dropout=0.0).float().train(), captions()
    given = {m: x.float() for m, x in videos().items()}
    places = torch.arange(said[0].numel()).expand(len(said), -1)
    lengths = {m: torch.full((len(x),), x.shape[1]) for m, x in given.items()}
    found = []
    for chosen in (False, True):
        used = []
        monkeypatch.setattr("hoca.models.parts.output.saves_work", lambda *_, chosen=chosen: chosen)
        apply = AttendedScores.apply
        monkeypatch.setattr(AttendedScores, "apply", lambda *a, used=used, apply=apply: used.append(1) or apply(*a))
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model.forward_at(given, lengths, frozenset(), said, places)
        monkeypatch.undo()
        assert bool(used) == chosen
        words = logits[..., : len(model.vocabulary)].float()
        torch.nn.functional.cross_entropy(words.flatten(0, 1), said.flatten()).backward()
        found.append([words.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() <= 0.02 * other.norm() + 1e-5
