"""What a captioner tells of how it came to its words: weights by name, and matrices that say what their axes are.

B videos · R captions per video · L words · T_m time steps of modality m.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from hoca.models.config import Group
from hoca.models.trees import map_tensors


@dataclass(frozen=True)
class Words:
    """The words that are predicted; `before`: in their place the beginning, then every word but the last."""

    before: bool = False


@dataclass(frozen=True)
class Steps:
    """The time steps of a modality, or chunks of them."""

    modality: str
    count: int  # T_m
    chunk: int = 1  # time steps in a chunk; the last one may have fewer


@dataclass(frozen=True)
class Names:
    """Things with a name each: tags, modalities."""

    names: tuple[str, ...]


Axis = Words | Steps | Names


@dataclass(frozen=True)
class Matrix:
    """Numbers about a caption whose axes are declared, so that a report can draw them."""

    values: Tensor  # [B, R, rows, columns], 0 where a step, a modality or a word is missing
    rows: Axis
    columns: Axis
    about: str  # what a number says, in one line
    sums: Literal["rows"] | None = None  # rows: each is weights, at least 0 with a sum of 1, of one caption too

    def of_caption(self, video: int, words: int) -> Matrix:
        """Of the first caption of one video, which has so many words: [rows, columns]."""
        rows, columns = (slice(words) if isinstance(each, Words) else slice(None) for each in (self.rows, self.columns))
        return replace(self, values=self.values[video, 0, rows, columns].cpu())


@dataclass(frozen=True)
class Explanation:
    """What each word looked at. A captioner leaves out what it does not have."""

    attention: dict[str, Tensor] = field(default_factory=dict)  # α over the steps of each modality, [B, R, L, T_m]
    shares: dict[str, Tensor] = field(default_factory=dict)  # β, how much each modality counts, [B, R, L]
    groups: dict[str, dict[Group, Tensor]] = field(default_factory=dict)  # α_g per modality and group, [B, R, L, T_m]
    theta: dict[str, dict[Group, float]] = field(default_factory=dict)  # weight of each group where there are several
    choices: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # what a word chose among → option → [B, R, L]
    found: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # in the whole video: tags, topics → item → [B]
    matrices: dict[str, Matrix] = field(default_factory=dict)  # whatever else there is to see, by name

    def of_caption(self, video: int, words: int) -> Explanation:
        """Of the first caption of one video, which has so many words: [words, ...]; what was found: a number each."""
        by_word = replace(self, found={}, matrices={})
        return replace(
            map_tensors(lambda tensor: tensor[video, 0, :words].cpu(), by_word),
            found=map_tensors(lambda tensor: tensor[video].cpu(), self.found),
            matrices={name: matrix.of_caption(video, words) for name, matrix in self.matrices.items()},
        )
