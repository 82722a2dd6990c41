"""The options of the paper's captioner: which modalities are attended to together, how, and how that is combined."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal

from hoca.errors import UserError, nearest
from hoca.models.config import SCALE, SIZE, Group, ModelConfig
from hoca.options import option, shortened

GROUPS = 1 << 10  # of modalities that are attended to together, at most


@dataclass(frozen=True)
class HocaConfig(ModelConfig):
    orders: tuple[int, ...] = option((), "orders of attention: each stands for all groups of that many modalities")
    groups: tuple[Group, ...] = option((), "explicit groups of modalities, in place of orders")
    form: Literal["exact", "low-rank"] = option(
        "low-rank", "how groups of two or more are scored: eq. 7-9 or eq. 14-17"
    )
    rank: int = option(1, "K of Low-Rank HOCA", least=1, below=1 << 10)
    merge: Literal["weights", "logits", "mixture"] = option("weights", "how the orders are merged; weights = eq. 19")
    fusion: Literal["hierarchical", "sum"] = option("hierarchical", "how modalities are fused: eq. 20-23 or eq. 6")
    attention: int = option(512, "D, size of the common space", least=1, below=SIZE)
    initial_scale: float = option(
        1.0, "factor on the initial weights over time steps, for groups of two or more", least=0, below=SCALE
    )
    share_projections: bool = option(False, "one projection per modality instead of one per modality and group")
    tie_words: bool = option(False, "use the word vectors as the output layer, which saves parameters")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups:
            groups = _chosen_groups(self.groups, self.modalities)
        else:
            groups = _groups_of_orders(self.orders, self.modalities)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "orders", tuple(sorted({len(group) for group in groups})))

    def groups_of(self, modality: str) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if modality in group)


def _groups_of_orders(orders: Iterable[int], modalities: Mapping[str, int]) -> tuple[Group, ...]:
    wanted = sorted(set(orders))
    if any(order < 1 for order in wanted):
        raise UserError(f"orders={shortened(wanted)}: an order is the number of modalities in a group, at least 1")
    possible = [order for order in wanted if order <= len(modalities)]
    if not possible:
        raise UserError(
            f"orders={shortened(wanted)} leave no attention over {len(modalities)} modalities ({', '.join(modalities)})"
            f": choose an order of at most {len(modalities)}"
        )
    if (count := sum(comb(len(modalities), order) for order in possible)) > GROUPS:
        raise UserError(f"orders={shortened(possible)} make {count} groups of {len(modalities)} modalities: name fewer")
    if possible != wanted:
        warnings.warn(f"orders {wanted[len(possible) :]} are dropped: there are {len(modalities)} modalities")
    return tuple(group for order in possible for group in combinations(modalities, order))


def _chosen_groups(groups: Sequence[Group], modalities: Mapping[str, int]) -> tuple[Group, ...]:
    chosen = []
    if len(groups) > GROUPS:
        raise UserError(f"{len(groups)} groups of modalities: at most {GROUPS} are possible")
    for members in groups:
        for member in members:
            if member not in modalities:
                raise UserError(f"the group {members} names {member!r}: {nearest(member, modalities)}")
        if not members or len(set(members)) != len(members):
            raise UserError(f"the group {members} must name one or more different modalities")
        chosen.append(tuple(sorted(members, key=list(modalities).index)))
    if len(set(chosen)) != len(chosen):
        raise UserError(f"groups={chosen} must name different groups")
    return tuple(chosen)
