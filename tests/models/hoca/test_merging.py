"""The merged weights recomputed plainly from the weights of each group and θ."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hoca.models import Captioner, create

from ..tiny import HOLES, RAGGED, SIZES, VOCABULARY, WIDTHS, Lengths, captioner, captions, videos

NAMES = ("hoca-b", "hoca-ubt", "l-hoca-ub", "l-hoca-ubt")


def expected(
    model: Captioner, modality: str, alphas: dict[tuple[str, ...], Tensor], given: Lengths, video: int
) -> Tensor:
    """α [R, L, T] of one video's real steps, from α_g of the groups whose members it has."""
    real = int(given[modality][video])
    groups = model.config.groups_of(modality)
    counted = [g for g in groups if all(given[m][video] > 0 for m in g)]
    theta = [model.merge.theta[modality][groups.index(g)] for g in counted]
    weights = [alphas[g][video, :, :, :real] for g in counted]
    if not counted:
        return torch.full((2, 4, real), 1 / real).double()
    if model.config.merge == "weights":
        return torch.softmax(sum(t * a for t, a in zip(theta, weights, strict=True)), -1)
    if model.config.merge == "logits":  # log α_g are the scores up to a constant, which the softmax takes away
        return torch.softmax(sum(t * a.log() for t, a in zip(theta, weights, strict=True)), -1)
    share = torch.softmax(torch.stack(theta), 0)
    return sum(s * a for s, a in zip(share, weights, strict=True))


@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
@pytest.mark.parametrize("merge", ["weights", "logits", "mixture"])
@pytest.mark.parametrize("name", NAMES)
def test_merging_is_its_formula(name: str, merge: str, given: Lengths) -> None:
    model = captioner(name, merge=merge)
    explanation = model.look(model.encode(videos(), given), captions())
    for m, lengths in given.items():
        for video, real in enumerate(lengths.tolist()):
            alpha = explanation.attention[m][video]
            assert (alpha[..., real:] == 0).all()
            if real:
                wanted = expected(model, m, explanation.groups[m], given, video)
                torch.testing.assert_close(alpha[..., :real], wanted)


@pytest.mark.parametrize("merge", ["weights", "logits", "mixture"])
@pytest.mark.parametrize("name", ["hoca-u", "hoca-t", "l-hoca-t"])
def test_of_one_configured_group_the_weights_are_taken_as_they_are(name: str, merge: str) -> None:
    model = captioner(name, merge=merge)
    assert not list(model.merge.parameters())
    explanation = model.look(model.encode(videos(), RAGGED), captions())
    for m, groups in explanation.groups.items():
        (alpha,) = groups.values()
        torch.testing.assert_close(explanation.attention[m], alpha)


def test_eq_19_applies_even_when_one_group_of_several_is_left() -> None:
    model, given = captioner("hoca-ub"), {"motion": torch.zeros(3).long(), "audio": torch.zeros(3).long()}
    explanation = model.look(model.encode(videos(), given), captions())
    alone = explanation.groups["image"][("image",)]
    torch.testing.assert_close(explanation.attention["image"], torch.softmax(model.merge.theta["image"][0] * alone, -1))


@pytest.mark.parametrize("merge", ["logits", "mixture"])
@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_bf16_autocast_stays_close_to_float32(merge: str, given: Lengths) -> None:
    model, words = captioner(merge=merge).float(), captions()
    features = {m: x.float() for m, x in videos().items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model(features, given, words)
    torch.testing.assert_close(low.float(), model(features, given, words), atol=0.25, rtol=0.05)
    low.float().logsumexp(-1).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_theta_starts_at_one_per_modality_and_group() -> None:
    model = create("l-hoca-ubt", WIDTHS, VOCABULARY, **SIZES)
    assert {m: theta.tolist() for m, theta in model.merge.theta.items()} == {m: [1.0] * 4 for m in WIDTHS}


def test_an_explanation_tells_theta_where_there_are_several_groups() -> None:
    model = captioner("l-hoca-ub", groups=[("image",), ("image", "motion"), ("audio",)])
    theta = model.look(model.encode(videos(), RAGGED), captions()).theta
    assert theta == {
        "image": dict(zip([("image",), ("image", "motion")], model.merge.theta["image"].tolist(), strict=True)),
        "motion": {},
        "audio": {},
    }


def test_huge_theta_does_not_overflow_the_mixture() -> None:
    model = captioner(merge="mixture")
    with torch.no_grad():
        model.merge.theta["image"].copy_(torch.tensor([900.0, 0.0, -900.0, 899.0]))
    explanation = model.look(model.encode(videos(), HOLES), captions())
    for video in (1, 2):  # those that have pictures
        total = explanation.attention["image"][video].sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total))
