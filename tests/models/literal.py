"""The paper's forward pass read aloud: one video, one caption, one word, one time step after the other.

Nothing of `hoca.models` or `hoca.ops` runs here; only the parameters and the configuration are taken from the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import torch
from torch import Tensor, nn

from hoca.models import Captioner, Group


def logits(model: Captioner, features: dict[str, Tensor], words: Sequence[int]) -> Tensor:
    """features[m] [T_m, D_m] of the modalities that the video has, words [L] → [L, V]."""
    size = model.config.hidden
    encoded = {m: bilstm(model.encoder.lstms[m], x, size) for m, x in features.items()}
    h, c = torch.zeros(size).double(), torch.zeros(size).double()
    rows = []
    for word in words:
        h, c = lstm_step(model.decoder.lstm, "l0", model.decoder.embedding.weight[word], h, c)  # eq. 1
        contexts = {}
        for m, steps in encoded.items():
            alpha = merged(model, m, group_scores(model, m, h, encoded), len(steps))
            contexts[m] = sum(alpha[r] * steps[r] for r in range(len(steps)))  # eq. 5
        rows.append(predict(model, h, contexts))
    return torch.stack(rows)


def group_scores(model: Captioner, modality: str, h: Tensor, encoded: dict[str, Tensor]) -> dict[Group, list[Tensor]]:
    """What stands inside the exponentials of eq. 2, 9 and 17, for each group whose members are all there."""
    scores = {}
    for number, group in enumerate(model.config.groups):
        if modality in group and all(m in encoded for m in group):
            mapped = [mapped_steps(model, group, m, h, encoded[m]) for m in group]
            scores[group] = group_rule(model, group)(model.attention.scorers[number], mapped, group.index(modality))
    return scores


def mapped_steps(model: Captioner, group: Group, modality: str, h: Tensor, steps: Tensor) -> list[Tensor]:
    """tanh(W h + U I_r + b) for every r; a group's share of the stacked projections counts up in the groups' order."""
    mine = [g for g in model.config.groups if modality in g].index(group)
    first = 0 if model.config.share_projections else mine * model.config.attention
    rows = slice(first, first + model.config.attention)
    query, key = model.attention.queries[modality], model.attention.keys[modality]
    return [torch.tanh(query.weight[rows] @ h + key.weight[rows] @ x + query.bias[rows]) for x in steps]


def group_rule(model: Captioner, group: Group) -> Callable[[nn.Module, list[list[Tensor]], int], list[Tensor]]:
    if len(group) == 1:
        return unary
    return exact if model.config.form == "exact" else low_rank


def unary(scorer: nn.Module, mapped: list[list[Tensor]], l: int) -> list[Tensor]:
    return [scorer.channel @ x for x in mapped[l]]  # eq. 3


def exact(scorer: nn.Module, mapped: list[list[Tensor]], l: int) -> list[Tensor]:
    others = [x for i, x in enumerate(mapped) if i != l]
    places = list(product(*(range(len(x)) for x in others)))
    return [
        sum(
            scorer.weights[l][place] * (x * prod(y[r] for y, r in zip(others, place, strict=True))).sum()  # eq. 7
            for place in places
        )  # eq. 9
        for x in mapped[l]
    ]


def low_rank(scorer: nn.Module, mapped: list[list[Tensor]], l: int) -> list[Tensor]:
    together = 0
    for j in range(len(scorer.factors[0])):
        pooled = [
            sum(scorer.factors[i][j, r] * x for r, x in enumerate(steps))  # eq. 14
            for i, steps in enumerate(mapped)
            if i != l
        ]
        together = together + prod(pooled)  # eq. 16
    return [scorer.channels[l] @ (x * together) for x in mapped[l]]  # eq. 17


def merged(model: Captioner, modality: str, scores: dict[Group, list[Tensor]], steps: int) -> list[Tensor]:
    if not scores:
        return [torch.tensor(1.0).double() / steps] * steps
    weights = {g: normalised(s) for g, s in scores.items()}
    configured = [g for g in model.config.groups if modality in g]
    if len(configured) == 1:
        return weights[configured[0]]
    theta = {g: model.merge.theta[modality][configured.index(g)] for g in scores}
    if model.config.merge == "weights":
        return normalised([sum(theta[g] * weights[g][r] for g in scores) for r in range(steps)])  # eq. 19
    if model.config.merge == "logits":
        return normalised([sum(theta[g] * scores[g][r] for g in scores) for r in range(steps)])
    share = dict(zip(scores, normalised([theta[g] for g in scores]), strict=True))
    return [sum(share[g] * weights[g][r] for g in scores) for r in range(steps)]


def predict(model: Captioner, h: Tensor, contexts: dict[str, Tensor]) -> Tensor:
    size, weight = model.config.hidden, model.output.linear.weight
    share = dict.fromkeys(contexts, torch.tensor(1.0).double())  # eq. 6
    if model.config.fusion == "hierarchical":
        f = model.fusion
        energies = [
            f.channel.weight[0] @ torch.tanh(f.query.weight @ h + f.key.weight @ phi + f.query.bias)  # eq. 21
            for phi in contexts.values()
        ]
        share = dict(zip(contexts, normalised(energies), strict=True))  # eq. 20
    result = weight[:, :size] @ h + model.output.linear.bias
    for place, modality in enumerate(model.config.modalities):
        if modality in contexts:
            columns = slice(size + 2 * size * place, size + 2 * size * (place + 1))
            result = result + share[modality] * (weight[:, columns] @ contexts[modality])  # eq. 22-23
    return result


def normalised(scores: list[Tensor]) -> list[Tensor]:
    powers = [torch.exp(s) for s in scores]
    return [p / sum(powers) for p in powers]


def bilstm(lstm: nn.LSTM, features: Tensor, size: int) -> Tensor:
    def run(steps: Sequence[Tensor], suffix: str) -> list[Tensor]:
        h, c, outputs = torch.zeros(size).double(), torch.zeros(size).double(), []
        for x in steps:
            h, c = lstm_step(lstm, suffix, x, h, c)
            outputs.append(h)
        return outputs

    forward = run(list(features), "l0")
    backward = run(list(features.flip(0)), "l0_reverse")[::-1]
    return torch.stack([torch.cat(pair) for pair in zip(forward, backward, strict=True)])


def lstm_step(lstm: nn.LSTM, suffix: str, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    w_ih, w_hh, b_ih, b_hh = (getattr(lstm, f"{p}_{suffix}") for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    i, f, g, o = (w_ih @ x + b_ih + w_hh @ h + b_hh).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c
