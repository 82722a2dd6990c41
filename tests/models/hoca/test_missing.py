"""A modality that a video lacks: as if the module had never been given it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ..tiny import HOLES, PAPER, STEPS, Lengths, alone, captioner, captions, videos

MERGES = ("weights", "logits", "mixture")


@st.composite
def lengths_of_three_videos(draw: st.DrawFn) -> Lengths:
    rows = []
    for _ in range(3):
        row = {m: draw(st.integers(0, steps), label=m) for m, steps in STEPS.items()}
        if not any(row.values()):
            row[draw(st.sampled_from(sorted(STEPS)))] = 1
        rows.append(row)
    return {m: torch.tensor([row[m] for row in rows]) for m in STEPS}


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("name", ["hoca-ubt", "l-hoca-b", "l-hoca-ubt"])
@settings(max_examples=12, deadline=None)
@given(lengths=lengths_of_three_videos(), seed=st.integers(0, 2**16))
def test_any_batch_equals_its_videos_called_without_what_they_lack(
    name: str, merge: str, lengths: Lengths, seed: int
) -> None:
    torch.manual_seed(seed)
    model, features, words = captioner(name, merge=merge), videos(), captions()
    for m, length in lengths.items():
        for video, real in enumerate(length.tolist()):
            features[m][video, real:] = float("nan")
    logits = model(features, lengths, words)
    for video in range(3):
        kept, full = alone(features, lengths, video)
        torch.testing.assert_close(logits[video : video + 1], model(kept, full, words[video : video + 1]))


@pytest.mark.parametrize("fusion", ["hierarchical", "sum"])
@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("absent", list(STEPS))
def test_left_out_and_of_length_zero_are_the_same(name: str, fusion: str, absent: str) -> None:
    model, features, words = captioner(name, fusion=fusion), videos(), captions()
    without = {m: x for m, x in features.items() if m != absent}
    none = {absent: torch.zeros(3, dtype=torch.long)}
    assert torch.equal(model(without, {}, words), model(features, none, words))
    some = {absent: torch.tensor([0, 2, 0])}
    torch.testing.assert_close(model(features, some, words)[[0, 2]], model(without, {}, words)[[0, 2]])


@pytest.mark.parametrize("name", PAPER)
def test_no_gradient_reaches_what_is_absent_and_all_others_are_finite(name: str) -> None:
    model = captioner(name)
    features = {m: x.requires_grad_() for m, x in videos().items()}
    model(features, HOLES, captions()).logsumexp(-1).sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None] + [x.grad for x in features.values()]
    assert all(g.isfinite().all() for g in gradients)
    for m, length in HOLES.items():
        assert features[m].grad[length == 0].abs().max() == 0
        assert features[m].grad[length > 0].abs().max() > 0


@pytest.mark.parametrize("merge", MERGES)
def test_what_is_absent_is_not_looked_at(merge: str) -> None:
    model = captioner(merge=merge)
    explanation = model.look(model.encode(videos(), HOLES), captions())
    for video, absent in enumerate(HOLES):
        assert HOLES[absent][video] == 0
        assert (explanation.shares[absent][video] == 0).all()
        assert (explanation.attention[absent][video] == 0).all()
        for m in HOLES:
            for group, alpha in explanation.groups[m].items():
                expected = 0.0 if absent in group else 1.0
                torch.testing.assert_close(alpha[video].sum(-1), torch.full((2, 4), expected).double())
    shares = torch.stack(list(explanation.shares.values())).sum(0)
    torch.testing.assert_close(shares, torch.ones_like(shares))


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("lengths", [{"motion": [0, 0, 0]}, {"motion": [0, 2, 0]}], ids=["all", "some"])
@pytest.mark.parametrize(
    "groups", [[("image", "motion"), ("audio",)], [("image", "motion"), ("image", "motion", "audio")]]
)
def test_a_modality_left_with_no_group_attends_evenly_over_its_real_steps(
    groups: list[tuple[str, ...]], lengths: dict[str, list[int]], merge: str
) -> None:
    model = captioner(groups=groups, merge=merge)
    given = {"image": torch.tensor([3, 2, 4]), "motion": torch.tensor(lengths["motion"])}
    alpha = model.look(model.encode(videos(), given), captions()).attention["image"]
    for video, real in ((0, 3), (2, 4)):
        expected = torch.zeros(4).double()
        expected[:real] = 1 / real
        torch.testing.assert_close(alpha[video], expected.expand(2, 4, 4))


def test_a_modality_configured_without_a_group_attends_evenly() -> None:
    model = captioner(groups=[("image",)])
    alpha = model.look(model.encode(videos(), {"audio": torch.tensor([5, 1, 2])}), captions()).attention["audio"]
    torch.testing.assert_close(alpha[0, 0, 0], torch.full((5,), 0.2).double())
    torch.testing.assert_close(alpha[2, 1, 3], torch.tensor([0.5, 0.5, 0, 0, 0]).double())
