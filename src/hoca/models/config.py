"""What a captioner is made of, as plain values: enough to build it again from a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from hoca.errors import UserError, nearest
from hoca.options import about, check_bounds, check_values, convert, option

Group = tuple[str, ...]  # modalities that are attended to together

LONGEST = 80  # steps of a modality, unless told otherwise
SIZE = 1 << 16  # no layer of a captioner is as wide
STEPS = 1 << 14  # no modality is as long
SCALE = 1 << 20  # no weight or factor is as large
MODALITIES = 16  # at most


@dataclass(frozen=True)
class ModelConfig:
    """What all captioners have in common. Those fields that are an `option` can be set in a recipe."""

    modalities: Mapping[str, int]  # name → feature width, in the order of the recipe
    max_steps: Mapping[str, int] = option(
        {}, "longest input in time steps: one number, or one per modality", least=1, below=STEPS
    )
    hidden: int = option(512, "size of every LSTM", least=1, below=SIZE)
    embedding: int = option(300, "width of the word vectors", least=1, below=SIZE)
    dropout: float = option(0.5, "on the decoder's input and output", least=0, below=1)
    encoder_dropout: float = option(0.0, "on features and encodings; the paper has none", least=0, below=1)
    normalise: bool = option(False, "layer norm on the features; the paper has none")
    unigram_bias: bool = option(
        False, "start the output bias at the words' log frequencies in the training captions; the paper does not"
    )
    word_detector: tuple[str, ...] = option(
        (), "modalities to detect words from, fitted before training; empty = no word detector"
    )
    categories: tuple[str, ...] = ()  # names that give the decoder its start state
    category_width: int = 0  # width of the vectors of those names

    def __post_init__(self) -> None:
        if not self.modalities:
            raise UserError("a captioner needs at least one modality")
        if len(self.modalities) > MODALITIES:
            raise UserError(f"{len(self.modalities)} modalities: at most {MODALITIES} are possible")
        for name, width in self.modalities.items():
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise UserError(f"the modality name {name!r} may hold letters, digits, '_' and '-' only")
            if not 1 <= width < SIZE:
                raise UserError(f"the features of {name!r} have width {width}: 1 to {SIZE - 1} are possible")
        for key, named in (("max_steps", self.max_steps), ("word_detector", self.word_detector)):
            if unknown := [name for name in named if name not in self.modalities]:
                known = ", ".join(self.modalities)
                raise UserError(f"{key} names {unknown[0]!r}, which is no modality: known: {known}")
        if len(set(self.word_detector)) < len(self.word_detector):
            raise UserError(f"word_detector names a modality twice: {', '.join(self.word_detector)}")
        if self.categories and not 1 <= self.category_width < SIZE:
            raise UserError(f"category_width={self.category_width} must be at least 1 and below {SIZE}")
        steps = {modality: self.max_steps.get(modality, LONGEST) for modality in self.modalities}
        object.__setattr__(self, "max_steps", steps)
        check_bounds(self)

    @classmethod
    def of(cls, modalities: Mapping[str, int], **options: Any) -> Self:
        """A checked configuration for features of the given widths."""
        known = {f.name for f in fields(cls)} - {"modalities"}
        for key in options:
            if key not in known:
                raise UserError(f"the model has no option {key!r}: {nearest(key, sorted(known))}")
        return cls(modalities=dict(modalities), **convert(cls, _for_each(modalities, options), "the model"))

    @classmethod
    def check_options(cls, options: Mapping[str, Any], where: str) -> None:
        """Refuse values that are wrong whatever the modalities are; an error says `where` they stand."""
        check_values(cls, convert(cls, _for_each(["modality"], options), where), where)

    @classmethod
    def options(cls) -> dict[str, str]:
        """The keys that a recipe may set, and what they mean."""
        return about(cls)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The configuration of a checkpoint, which may come from anywhere."""
        if not isinstance(values, Mapping) or "modalities" not in values:
            raise UserError("the model's configuration lacks 'modalities': is the file damaged?")
        if unknown := sorted(map(str, set(values) - {f.name for f in fields(cls)})):
            raise UserError(f"the model's configuration has the unknown key {unknown[0]!r}: made by a newer hoca?")
        return cls(**convert(cls, values, "the model's configuration"))


def _for_each(modalities: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, one number of `max_steps` as that of every modality."""
    steps = options.get("max_steps")
    whole = isinstance(steps, int) and not isinstance(steps, bool)
    return {**options, "max_steps": dict.fromkeys(modalities, steps)} if whole else dict(options)
