from __future__ import annotations

import pytest
import torch

from hoca.models import create
from hoca.models.hoca.attention import Exact, LowRank, Unary

from ..tiny import SIZES, VOCABULARY, WIDTHS, captioner, captions, videos


def test_each_group_has_its_own_projections_unless_they_are_shared() -> None:
    own = create("l-hoca-ubt", WIDTHS, VOCABULARY, **SIZES).attention
    shared = create("l-hoca-ubt", WIDTHS, VOCABULARY, share_projections=True, **SIZES).attention
    for m in WIDTHS:  # one unary, two binary groups, one ternary
        assert own.queries[m].out_features == own.keys[m].out_features == 4 * SIZES["attention"]
        assert shared.queries[m].out_features == shared.keys[m].out_features == SIZES["attention"]


def test_every_row_of_the_projections_learns() -> None:
    model = captioner()
    model(videos(), {}, captions()).logsumexp(-1).sum().backward()
    for layer in (*model.attention.queries.values(), *model.attention.keys.values()):
        assert (layer.weight.grad.abs().amax(1) > 0).all()


def test_keys_of_all_groups_are_one_projection_per_modality() -> None:
    model = captioner()
    memory = model.encode(videos(), {})
    assert {m: tuple(k.shape) for m, k in memory.keys.items()} == {
        "image": (3, 4, 4, 6),
        "motion": (3, 3, 4, 6),
        "audio": (3, 5, 4, 6),
    }


def test_tables_reach_over_the_longest_input() -> None:
    low, exact = (
        create(name, WIDTHS, VOCABULARY, **SIZES | {"max_steps": {"image": 4, "motion": 5, "audio": 6}}, rank=2)
        for name in ("l-hoca-t", "hoca-t")
    )
    scorer = low.attention.scorers[0]
    assert isinstance(scorer, LowRank)
    assert [tuple(f.shape) for f in scorer.factors] == [(2, 4), (2, 5), (2, 6)]
    assert [tuple(c.shape) for c in scorer.channels] == [(SIZES["attention"],)] * 3
    scorer = exact.attention.scorers[0]
    assert isinstance(scorer, Exact)
    assert [tuple(w.shape) for w in scorer.weights] == [(5, 6), (4, 6), (4, 5)]


@pytest.mark.parametrize(
    ("scorer", "bounds"),
    [
        (Unary(400), {"channel": 400**-0.5}),
        (Exact([40, 30, 20]), {"weights.0": 600**-0.5, "weights.1": 800**-0.5, "weights.2": 1200**-0.5}),
        (LowRank([400, 900], 2, 400), {"factors.0": 400**-0.5, "factors.1": 900**-0.5, "channels.0": 400**-0.5}),
        (Exact([400, 300], scale=4.0), {"weights.0": 4 * 300**-0.5, "weights.1": 4 * 400**-0.5}),
        (LowRank([400, 900], 2, 400, scale=4.0), {"factors.0": 4 * 400**-0.5, "channels.0": 400**-0.5}),
    ],
    ids=["unary", "exact", "low-rank", "exact scaled", "low-rank scaled"],
)
def test_tables_start_as_linear_layers_do(scorer: torch.nn.Module, bounds: dict[str, float]) -> None:
    parameters = dict(scorer.named_parameters())
    for key, bound in bounds.items():
        assert parameters[key].abs().max() <= bound
        assert parameters[key].std().item() == pytest.approx(bound / 3**0.5, rel=0.2)


def test_attention_has_the_documented_shapes_and_laws() -> None:
    model, words = captioner(), captions()
    explanation = model.look(model.encode(videos(), {}), words)
    for m, steps in (("image", 4), ("motion", 3), ("audio", 5)):
        assert set(explanation.groups[m]) == set(model.config.groups_of(m))
        for alpha in (*explanation.groups[m].values(), explanation.attention[m]):
            assert alpha.shape == (3, 2, 4, steps)
            assert (alpha > 0).all()
            torch.testing.assert_close(alpha.sum(-1), torch.ones(3, 2, 4).double())
        assert explanation.shares[m].shape == (3, 2, 4)
