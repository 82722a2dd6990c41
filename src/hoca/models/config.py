"""What a captioner is made of, as plain values: enough to build it again from a checkpoint."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations
from typing import Any

from hoca.errors import UserError, nearest

Group = tuple[str, ...]

FORMS = ("exact", "low-rank")
MERGES = ("weights", "logits", "mixture")
FUSIONS = ("hierarchical", "sum")


@dataclass(frozen=True)
class Config:
    modalities: Mapping[str, int]  # name → feature width, in the order of the recipe
    groups: tuple[Group, ...]  # the sets of modalities that are attended to together
    form: str = "low-rank"  # how groups of two or more are scored: `exact` (eq. 7-9) or `low-rank` (eq. 14-17)
    rank: int = 1  # K, of the low-rank form
    merge: str = "weights"  # how the orders of a modality are combined: `weights` (eq. 19), `logits`, `mixture`
    fusion: str = "hierarchical"  # how modalities are combined: `hierarchical` (eq. 20-23) or `sum` (eq. 6)
    hidden: int = 512  # H, of every LSTM (an encoder gives 2H)
    attention: int = 512  # D
    embedding: int = 300  # width of the word vectors
    dropout: float = 0.5  # on the decoder's input and output
    encoder_dropout: float = 0.0  # on the features and on the encoders' output; the paper has none
    normalise: bool = False  # layer norm on the features; the paper has none
    share_projections: bool = False  # one W, b, U per modality instead of one per modality and group
    bottleneck: int = 0  # width of a linear layer before the words' scores, which factorises them; 0 = none, the paper
    tie_words: bool = False  # the words' scores are products with their vectors: the bottleneck is as wide as these
    max_steps: Mapping[str, int] = field(default_factory=dict)  # longest input of every modality
    detects: tuple[str, ...] = ()  # the modalities in which words are detected; the paper has none
    categories: tuple[str, ...] = ()  # names that give the decoder its start state
    category_width: int = 0  # width of the vectors of those names

    def __post_init__(self) -> None:
        _check_modalities(self.modalities)
        for key, known in (("form", FORMS), ("merge", MERGES), ("fusion", FUSIONS)):
            if getattr(self, key) not in known:
                raise UserError(f"{key}={getattr(self, key)!r} is unknown: {nearest(str(getattr(self, key)), known)}")
        for key in ("rank", "hidden", "attention", "embedding", *(["category_width"] if self.categories else [])):
            if getattr(self, key) < 1:
                raise UserError(f"{key}={getattr(self, key)} must be at least 1")
        if self.bottleneck < 0:
            raise UserError(f"bottleneck={self.bottleneck} must be a width, or 0 for none")
        for modality in self.modalities:
            if self.max_steps.get(modality, 0) < 1:
                raise UserError(f"max_steps must give {modality!r} a number of steps, at least 1")
        if unknown := set(self.detects) - set(self.modalities):
            raise UserError(
                f"detects names {unknown.pop()!r}, which is no modality: known: {', '.join(self.modalities)}"
            )
        if len(set(self.detects)) < len(self.detects):
            raise UserError(f"detects names a modality twice: {', '.join(self.detects)}")
        for key in ("dropout", "encoder_dropout"):
            if not 0 <= getattr(self, key) < 1:
                raise UserError(f"{key}={getattr(self, key)} must be at least 0 and below 1")

    def groups_of(self, modality: str) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if modality in group)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Config:
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UserError(f"the model's configuration has the unknown key {unknown[0]!r}: made by a newer hoca?")
        for key in ("modalities", "groups", "max_steps"):
            if key not in values:
                raise UserError(f"the model's configuration lacks {key!r}: is the file damaged?")
        config = cls(**{key: _hashable(value) for key, value in values.items()})
        return replace(config, groups=_chosen_groups(config.groups, config.modalities))


def configure(
    modalities: Mapping[str, int],
    *,
    orders: Iterable[int] = (),
    groups: Iterable[Iterable[str]] | None = None,
    max_steps: int | Mapping[str, int] = 80,
    **options: Any,
) -> Config:
    """A checked `Config` from the options of `create`: explicit `groups`, or all groups of the given `orders`."""
    _check_modalities(modalities)
    for key in options:
        if key not in {f.name for f in fields(Config)}:
            known = sorted({f.name for f in fields(Config)} - {"modalities"} | {"orders"})
            raise UserError(f"the model has no option {key!r}: {nearest(key, known)}")
    given = dict.fromkeys(modalities, max_steps) if isinstance(max_steps, int) else dict(max_steps)
    if unknown := set(given) - set(modalities):
        raise UserError(f"max_steps names {unknown.pop()!r}, which is no modality: known: {', '.join(modalities)}")
    steps = {modality: given.get(modality, 80) for modality in modalities}
    chosen = _groups_of_orders(orders, modalities) if groups is None else _chosen_groups(groups, modalities)
    return Config(dict(modalities), chosen, max_steps=steps, **{k: _hashable(v) for k, v in options.items()})


def _groups_of_orders(orders: Iterable[int], modalities: Mapping[str, int]) -> tuple[Group, ...]:
    wanted = sorted(set(orders))
    if any(order < 1 for order in wanted):
        raise UserError(f"orders={tuple(wanted)}: an order is the number of modalities in a group, at least 1")
    possible = [order for order in wanted if order <= len(modalities)]
    if not possible:
        raise UserError(
            f"orders={tuple(wanted)} leave no attention over {len(modalities)} modalities ({', '.join(modalities)}): "
            f"choose an order of at most {len(modalities)}"
        )
    if possible != wanted:
        warnings.warn(f"orders {wanted[len(possible) :]} are dropped: there are {len(modalities)} modalities")
    return tuple(group for order in possible for group in combinations(modalities, order))


def _chosen_groups(groups: Iterable[Iterable[str]], modalities: Mapping[str, int]) -> tuple[Group, ...]:
    chosen = []
    for group in groups:
        members = (group,) if isinstance(group, str) else tuple(group)
        for member in members:
            if member not in modalities:
                raise UserError(f"the group {members} names {member!r}: {nearest(member, modalities)}")
        if not members or len(set(members)) != len(members):
            raise UserError(f"the group {members} must name one or more different modalities")
        chosen.append(tuple(sorted(members, key=list(modalities).index)))
    if not chosen or len(set(chosen)) != len(chosen):
        raise UserError(f"groups={chosen} must name one or more different groups")
    return tuple(chosen)


def _check_modalities(modalities: Mapping[str, int]) -> None:
    if not modalities:
        raise UserError("a captioner needs at least one modality")
    for name, width in modalities.items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise UserError(f"the modality name {name!r} may hold letters, digits, '_' and '-' only")
        if width < 1:
            raise UserError(f"the features of {name!r} have width {width}: at least 1 is needed")


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, list | tuple) else value
