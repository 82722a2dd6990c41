"""The groups of modalities that are attended to together, of every order (paper, section 4).

For a group g and its modality i: X_{g,i} = tanh(W_{g,i} h + b_{g,i} + U_{g,i} I_i). The keys U I are computed once
per video, the queries W h + b once per word, and `hoca.ops` scores the time steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from hoca import ops
from hoca.models.config import Group
from hoca.models.hoca.config import HocaConfig
from hoca.ops.copies import columns
from hoca.ops.linear import Linear, linear_layers
from hoca.ops.streams import ParallelStreams


class CrossModalAttention(nn.Module):
    def __init__(self, config: HocaConfig) -> None:
        super().__init__()
        self.size = config.attention
        self.groups = config.groups
        self.backend = "auto"
        # Which of a modality's projections a group uses: its own, or the only one when they are shared.
        self.slots: dict[tuple[Group, str], int] = {}
        counts = dict.fromkeys(config.modalities, 0)
        for group in config.groups:
            for modality in group:
                self.slots[group, modality] = 0 if config.share_projections else counts[modality]
                counts[modality] = 1 if config.share_projections else counts[modality] + 1
        used = {modality: count for modality, count in counts.items() if count}
        self.queries = nn.ModuleDict({m: Linear(config.hidden, n * self.size) for m, n in used.items()})
        self.keys = nn.ModuleDict({m: Linear(2 * config.hidden, n * self.size, bias=False) for m, n in used.items()})
        self.scorers = nn.ModuleList(_scorer(group, config) for group in config.groups)

    def project(self, encoded: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Encodings [B, T, 2H] → keys U I of all groups of the modality, [B, T, slots, D]."""
        return {m: self.keys[m](x).unflatten(-1, (-1, self.size)) for m, x in encoded.items() if m in self.keys}

    def query_layers(self, modalities: Iterable[str]) -> list[nn.Linear]:
        return [layer for m in modalities for layer in linear_layers(self.queries[m])]

    def key_layers(self, modality: str) -> list[nn.Linear]:
        """None where no group attends to it."""
        return linear_layers(self.keys[modality]) if modality in self.keys else []

    def forward(
        self, hidden: Tensor, keys: Mapping[str, Tensor], masks: Mapping[str, Tensor | None]
    ) -> dict[str, dict[Group, Tensor]]:
        """hidden [B, Q, H] → scores [B, Q, T_m] per modality and group, for the groups whose members are all given."""
        # Taken apart at once, so that the gradients of all slots are put together at once.
        queries = dict(zip(keys, columns(hidden, self.query_layers(keys), self.size), strict=True))  # [B, Q, D] each
        slots = {m: key.unbind(2) for m, key in keys.items()}  # [B, T, D]
        scores: dict[str, dict[Group, Tensor]] = {m: {} for m in masks}
        streams = ParallelStreams(hidden.device, captured=True)
        for group, scorer in zip(self.groups, self.scorers, strict=True):
            if all(m in keys for m in group):
                with streams.next():
                    of_group = scorer(  # eq. 18
                        [queries[m][self.slots[group, m]] for m in group],
                        [slots[m][self.slots[group, m]] for m in group],
                        [masks[m] for m in group],
                        self.backend,
                    )
                for modality, score in zip(group, of_group, strict=True):
                    scores[modality][group] = score
        streams.join([score for of_modality in scores.values() for score in of_modality.values()])
        return scores


class Unary(nn.Module):
    """eq. 3"""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.channel = _uniform(size, fan_in=size)

    def forward(
        self, queries: list[Tensor], keys: list[Tensor], masks: list[Tensor | None], backend: str
    ) -> list[Tensor]:
        return [ops.unary_scores(queries[0], keys[0], self.channel, masks[0], backend=backend)]


class Exact(nn.Module):
    """eq. 7-9; one weight per combination of positions of the other modalities, up to their longest input."""

    def __init__(self, steps: list[int], scale: float = 1.0) -> None:
        super().__init__()
        others = [steps[:l] + steps[l + 1 :] for l in range(len(steps))]
        self.weights = nn.ParameterList(
            _uniform(*shape, fan_in=torch.Size(shape).numel(), scale=scale) for shape in others
        )

    def forward(
        self, queries: list[Tensor], keys: list[Tensor], masks: list[Tensor | None], backend: str
    ) -> list[Tensor]:
        steps = [slice(key.shape[1]) for key in keys]
        weights = [weight[tuple(steps[:l] + steps[l + 1 :])] for l, weight in enumerate(self.weights)]
        return ops.exact_scores(queries, keys, weights, masks, backend=backend)


class LowRank(nn.Module):
    """eq. 14-17; K weights per position of each modality, up to its longest input."""

    def __init__(self, steps: list[int], rank: int, size: int, scale: float = 1.0) -> None:
        super().__init__()
        self.factors = nn.ParameterList(_uniform(rank, t, fan_in=t, scale=scale) for t in steps)
        self.channels = nn.ParameterList(_uniform(size, fan_in=size) for _ in steps)

    def forward(
        self, queries: list[Tensor], keys: list[Tensor], masks: list[Tensor | None], backend: str
    ) -> list[Tensor]:
        factors = [factor[:, : key.shape[1]] for factor, key in zip(self.factors, keys, strict=True)]
        return ops.low_rank_scores(queries, keys, factors, list(self.channels), masks, backend=backend)


def _scorer(group: Group, config: HocaConfig) -> nn.Module:
    steps = [config.max_steps[m] for m in group]
    if len(group) == 1:
        return Unary(config.attention)
    if config.form == "exact":
        return Exact(steps, config.initial_scale)
    return LowRank(steps, config.rank, config.attention, config.initial_scale)


def _uniform(*shape: int, fan_in: int, scale: float = 1.0) -> nn.Parameter:
    """As `nn.Linear` starts: every such table is a linear layer, over channels or over time."""
    bound = scale * fan_in**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
