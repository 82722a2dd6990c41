"""TDDF: each word chooses among patterns of fusion."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hoca.models import create
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.lstm import lstm_step

from ..test_contract import SIZES, captioner
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos


def test_the_choice_is_among_the_modalities_that_there_are_and_all_together() -> None:
    model = captioner("tddf")
    chosen = model.look(model.encode(videos(), HOLES), captions()).choices["fusion"]
    assert list(chosen) == ["image", "motion", "audio", "all together"]
    torch.testing.assert_close(sum(chosen.values()), torch.ones(3, 2, 4).double())
    for m, length in HOLES.items():
        assert bool((chosen[m] > 0).all(-1).all(-1).eq(length > 0).all()), m
    assert chosen["all together"].min() > 0


def by_hand(model: Any, encoded: dict[str, Tensor], word: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """One word of one video that has every modality, encoded[m] [T, 2H], as the equations read."""
    phi = {}
    for m, steps in encoded.items():
        part = model.attention[m]
        alpha = torch.softmax(torch.tanh(part.query(h) + part.key(steps)) @ part.channel, 0)
        phi[m] = model.project[m](alpha @ steps)
    patterns = []
    for m in WIDTHS:
        others = sum(phi[o] for o in WIDTHS if o != m) / 2
        patterns.append(torch.tanh(model.own[m](phi[m]) + model.relate[m](phi[m] * others)))
    patterns.append(torch.tanh(sum(model.join[m](phi[m]) for m in WIDTHS) + model.joint_bias))
    scores = torch.stack([model.channel(torch.tanh(model.query(h) + model.pattern(f)))[0] for f in patterns])
    gamma = torch.softmax(scores, 0)
    fused = gamma @ torch.stack(patterns)
    gates = model.word_gates(model.words.weight[word]) + model.other_gates(torch.cat([fused, h]))
    h, c = lstm_step(gates, c)
    return model.output(torch.cat([h, fused])), h, c, gamma


def test_a_step_is_what_the_equations_say() -> None:
    model: Any = captioner("tddf")
    features, words = videos(), captions()
    memory = model.encode(features, RAGGED)
    encoded = model.encoder(FeatureBatch.of(model.config, features, RAGGED))
    decoded = model.decode(memory, words, model.begin(memory, 2))
    chosen = torch.stack(list(model.look(memory, words).choices["fusion"].values()), -1)
    for video in range(3):
        h, c = (part[video, 0] for part in model.begin(memory, 2))
        real = {m: x[video, : RAGGED[m][video]] for m, x in encoded.items()}
        for place in range(4):
            logits, h, c, gamma = by_hand(model, real, words[video, 0, place], h, c)
            torch.testing.assert_close(decoded.logits[video, 0, place], logits)
            torch.testing.assert_close(chosen[video, 0, place], gamma)


def test_with_all_weight_on_the_joint_pattern_it_is_a_static_fusion() -> None:
    """Then what is centred on one modality has no effect."""
    model: Any = captioner("tddf")
    features, words = videos(), captions()

    def logits() -> Tensor:
        memory = model.encode(features, RAGGED)
        memory.present[:, :-1] = False  # no choice but the joint pattern
        return model.decode(memory, words, model.begin(memory, 2)).logits

    before = logits()
    with torch.no_grad():
        for part in (*model.own.values(), *model.relate.values()):
            part.weight.add_(1.0)
    torch.testing.assert_close(logits(), before)


def test_among_equal_patterns_the_choice_does_not_matter() -> None:
    model: Any = captioner("tddf")
    features, words = videos(), captions()
    with torch.no_grad():
        for part in (*model.own.values(), *model.relate.values(), *model.join.values()):
            part.weight.zero_()
        for part in model.relate.values():
            part.bias.copy_(model.joint_bias)
    before = model(features, HOLES, words)
    with torch.no_grad():
        for part in (model.query, model.pattern, model.channel):
            part.weight.normal_()
    torch.testing.assert_close(model(features, HOLES, words), before)


def test_modalities_may_change_their_names_and_order() -> None:
    model: Any = captioner("tddf")
    names = {"image": "sound", "motion": "view", "audio": "flow"}
    turned = dict(reversed([(names[m], width) for m, width in WIDTHS.items()]))
    other = create("tddf", turned, VOCABULARY, **{k: v for k, v in SIZES.items() if k in model.config.options()})
    weights = {}
    for key, value in model.state_dict().items():
        parts = [names.get(part, part) for part in key.split(".")]
        weights[".".join(parts)] = value
    other.double().eval().load_state_dict(weights)
    features, words = videos(), captions()
    renamed = {names[m]: x for m, x in features.items()}, {names[m]: length for m, length in HOLES.items()}
    torch.testing.assert_close(other(*renamed, words), model(features, HOLES, words))
