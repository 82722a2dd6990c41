"""Begin from a trained model: its weights, its words and its sizes; words that are new get rows of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hoca.data import FolderDataset, Vocabulary
from hoca.errors import UserError
from hoca.models import Captioner, Config
from hoca.training.checkpoint import locate, read_checkpoint
from hoca.training.recipe import Recipe

WORD_TABLES = (
    *("decoder.embedding.weight", "output.linear.weight", "output.linear.bias", "output.bias"),
    *("detector.outer", "detector.outer_bias"),
)


@dataclass(frozen=True)
class Beginning:
    name: str
    config: Config
    vocabulary: Vocabulary
    specification: dict[str, Any]
    weights: dict[str, Tensor]

    @classmethod
    def read(cls, name: str) -> Beginning:
        checkpoint = read_checkpoint(locate(name))
        facts = checkpoint.facts
        weights = {key: value.float() for key, value in checkpoint.part("model").items()}
        return cls(
            name,
            Config.from_json(facts["config"]),
            Vocabulary.from_json(facts["vocabulary"]),
            facts["specification"],
            weights,
        )

    def check(self, dataset: FolderDataset) -> None:
        """The dataset's features must be those that the model knows; a modality that it lacks is missing, no more."""
        for modality, width in dataset.widths.items():
            expected = self.config.modalities.get(modality)
            if expected is None:
                raise UserError(
                    f"start={self.name} knows {', '.join(self.config.modalities)}, "
                    f"{dataset.folder} also has {modality}: leave it out with modalities="
                )
            ours, theirs = _made(self.specification.get(modality)), _made(dataset.specification.get(modality))
            if width != expected or (ours and theirs and ours != theirs):
                raise UserError(
                    f"start={self.name} was trained on {modality} features of {_told(ours)}, {expected} wide, those of "
                    f"{dataset.folder} are of {_told(theirs)}, {width} wide: extract them as the model's"
                )

    def words(self, others: Vocabulary) -> Vocabulary:
        """Its own words, then those of `others` that are new."""
        new = [word for word in others.words if word not in self.vocabulary]
        return Vocabulary([*self.vocabulary.words, *new])

    def model(self, recipe: Recipe, vocabulary: Vocabulary) -> Captioner:
        """The same model for `vocabulary`, which begins with its own words, with the recipe's dropout."""
        config = replace(self.config, dropout=recipe.dropout, encoder_dropout=recipe.encoder_dropout)
        config = replace(config, detects=tuple(recipe.detects) or config.detects)

        def taken_over(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            """All but the detector, where the recipe asks for one of its own."""
            return {key: t for key, t in tensors.items() if not (recipe.detects and key.startswith("detector."))}

        model = Captioner(config, vocabulary)
        weights, state = taken_over(self.weights), taken_over(model.state_dict())
        if state.keys() != weights.keys():
            raise UserError(f"the weights of start={self.name} do not fit its own configuration: it was edited")
        with torch.no_grad():
            for key, value in weights.items():
                rows = len(value) if key in WORD_TABLES else None
                if state[key][:rows].shape != value.shape:
                    raise UserError(f"the weights of start={self.name} do not fit its own configuration: it was edited")
                state[key][:rows] = value
            known = weights[WORD_TABLES[0]]
            state[WORD_TABLES[0]][len(known) :] *= known.std()  # drawn with the spread of the words it knows
        return model


def _made(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """What decides a feature's values, without where it was stored."""
    return {key: (settings or {}).get(key) for key in ("backbone", "sampling")} if settings else {}


def _told(made: Mapping[str, Any]) -> str:
    return f"{made['backbone']} ({made['sampling']} sampling)" if made else "unknown origin"
