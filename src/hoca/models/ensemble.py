"""Several captioners as one: the probability of a word is the mean of the probabilities that its members give it.

The members are captioners of any kind for the same words and modalities, trained one by one; `hoca.checkpoint.join`
makes one file of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.models import interface
from hoca.models.config import Group, ModelConfig
from hoca.models.interface import CaptionModel, Decoded, Explanation, References, State
from hoca.models.parts.features import FeatureBatch
from hoca.models.registry import create, entry, register
from hoca.models.trees import map_tensors, shape_of
from hoca.options import option, shortened
from hoca.text import Vocabulary

MEMBERS = 8  # at most
COMMON = ("modalities", "word_detector", "categories", "category_width")  # of the ensemble, never of one member

Theta = dict[str, dict[Group, float]]


@dataclass(frozen=True)
class EnsembleConfig(ModelConfig):
    """What all captioners have in common is that of every member which does not say otherwise."""

    members: tuple[Mapping[str, Any], ...] = option(
        ({"name": "hoca-u"}, {"name": "hoca-u"}), "the captioners, each a table of its name and its own options"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.members) <= MEMBERS:
            raise UserError(f"an ensemble of {len(self.members)} members: 1 to {MEMBERS} are possible")
        checked = tuple(self._checked(number, member) for number, member in enumerate(self.members, 1))
        object.__setattr__(self, "members", checked)

    def options_of(self, member: Mapping[str, Any]) -> dict[str, Any]:
        """All options that a member is created with."""
        shared = {each.name: getattr(self, each.name) for each in fields(ModelConfig)}
        del shared["modalities"]
        return shared | {key: value for key, value in member.items() if key != "name"} | {"word_detector": ()}

    def _checked(self, number: int, member: Mapping[str, Any]) -> dict[str, Any]:
        """A member with its options as its own `Config` understands them."""
        try:
            found = entry(member.get("name", ""))
            if issubclass(found.model.Config, EnsembleConfig):
                raise UserError("an ensemble within an ensemble: name its members instead")
            if common := [key for key in COMMON if key in member]:
                raise UserError(f"{common[0]} is that of the whole ensemble: leave it out")
            config = found.model.Config.of(self.modalities, **{**found.defaults, **self.options_of(member)})
        except UserError as error:
            raise UserError(f"member {number}, {shortened(member.get('name'))}: {error}") from None
        return {"name": found.name} | {key: getattr(config, key) for key in member if key != "name"}


@dataclass(frozen=True)
class EnsembleMemory(interface.Memory):
    members: tuple[Any, ...]  # the memory of each


@register("ensemble", source="Hansen and Salamon, 1990", about="the mean of the probabilities of several captioners")
class Ensemble(CaptionModel):
    """Auxiliary losses of its members are not its own: trained as a whole, it learns from the words alone."""

    Config = EnsembleConfig
    config: EnsembleConfig

    def __init__(self, config: EnsembleConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.members = nn.ModuleList(
            create(member["name"], config.modalities, vocabulary, **config.options_of(member))
            for member in config.members
        )

    @property
    def embedding(self) -> nn.Embedding:
        return self._all()[0].embedding

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> EnsembleMemory:
        return EnsembleMemory(
            members=tuple(member.encode(features, lengths, category) for member in self._all()),
            evidence=self.detect(FeatureBatch.of(self.config, features, lengths)),
        )

    def begin(self, memory: EnsembleMemory, rows: int) -> State:
        return tuple(member.begin(known, rows) for member, known in zip(self._all(), memory.members, strict=True))

    def decode(self, memory: EnsembleMemory, words: Tensor, state: State) -> Decoded:
        each = [
            member.decode(known, words, before)
            for member, known, before in zip(self._all(), memory.members, state, strict=True)
        ]
        hidden = torch.cat([one.hidden for one in each], dim=-1)  # [B, R, L, Σ H]
        return Decoded(mean_probability([one.logits for one in each]), tuple(one.state for one in each), hidden)

    def look(self, memory: EnsembleMemory, words: Tensor) -> Explanation | None:
        """The mean of what the members looked at; what some of them lack is left out."""
        each = [member.look(known, words) for member, known in zip(self._all(), memory.members, strict=True)]
        found = [one for one in each if one is not None]
        return mean_explanation(found) if len(found) == len(each) else None

    def prepare(self, references: References) -> None:
        for member in self._all():
            member.prepare(references)

    def set_lengths(self, lengths: Mapping[str, Tensor]) -> None:
        for member in self._all():
            member.set_lengths(lengths)

    def set_word_vectors(self, vectors: Tensor, found: Tensor) -> None:
        for member in self._all():
            member.set_word_vectors(vectors, found)

    def set_word_frequencies(self, frequency: Tensor) -> None:
        for member in self._all():
            member.set_word_frequencies(frequency)

    def set_category_vectors(self, vectors: Tensor) -> None:
        for member in self._all():
            member.set_category_vectors(vectors)

    def describe(self) -> str:
        kinds = dict.fromkeys(member.describe() for member in self._all())
        return f"{len(self.members)} captioners together: {'; '.join(kinds)}"

    def _all(self) -> list[CaptionModel]:
        return list(self.members)  # type: ignore[arg-type]


def mean_probability(logits: Sequence[Tensor]) -> Tensor:
    """[..., V] of each member → logits whose softmax is the mean of the members' softmax."""
    dtype = torch.promote_types(logits[0].dtype, torch.float32)
    each = torch.stack([torch.log_softmax(one, dim=-1, dtype=dtype) for one in logits])
    return each.logsumexp(0) - math.log(len(logits))


def mean_explanation(each: Sequence[Explanation]) -> Explanation:
    """The mean of what all explain for the same things; the rest is left out."""

    def mean(*parts: Tensor) -> Tensor:
        return torch.stack(parts).mean(0)

    parts: dict[str, Any] = {}
    for name in ("attention", "shares", "groups", "choices", "found", "matrices"):
        first, *others = [getattr(one, name) for one in each]
        if all(shape_of(other) == shape_of(first) for other in others):
            parts[name] = map_tensors(mean, first, *others)
    return Explanation(**parts, theta=_mean_theta([one.theta for one in each]))


def _mean_theta(each: Sequence[Theta]) -> Theta:
    keys = [{(modality, group) for modality, of in theta.items() for group in of} for theta in each]
    if any(other != keys[0] for other in keys):
        return {}
    return {m: {group: fmean(theta[m][group] for theta in each) for group in of} for m, of in each[0].items()}
