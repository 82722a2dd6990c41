"""Begin from a trained model: its weights, its words and its sizes; words that are new get rows of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hoca.checkpoint import load_model
from hoca.data import FolderDataset
from hoca.errors import UserError
from hoca.models import CaptionModel, create, entry
from hoca.text import Vocabulary
from hoca.training.recipe import ModelSection


@dataclass(frozen=True)
class Pretrained:
    name: str  # as the recipe has it
    trained: CaptionModel
    specification: dict[str, Any]

    @classmethod
    def read(cls, name: str) -> Pretrained:
        loaded = load_model(name)
        return cls(name, loaded.model.float(), loaded.specification)

    def check(self, dataset: FolderDataset) -> None:
        """The dataset's features must be those that the model knows; a modality that it lacks is missing, no more."""
        for modality, width in dataset.widths.items():
            expected = self.trained.config.modalities.get(modality)
            if expected is None:
                raise UserError(
                    f"init_from={self.name} knows {', '.join(self.trained.config.modalities)}, "
                    f"{dataset.folder} also has {modality}: leave it out with modalities="
                )
            ours, theirs = _made(self.specification.get(modality)), _made(dataset.specification.get(modality))
            if width != expected or (ours and theirs and ours != theirs):
                raise UserError(
                    f"init_from={self.name} was trained on {modality} features of {_told(ours)}, {expected} wide, "
                    f"those of {dataset.folder} are of {_told(theirs)}, {width} wide: extract them as the model's"
                )

    def words(self, others: Vocabulary) -> Vocabulary:
        """Its own words, then those of `others` that are new."""
        known = self.trained.vocabulary
        return Vocabulary([*known.words, *(word for word in others.words if word not in known)])

    def model(self, section: ModelSection, vocabulary: Vocabulary) -> CaptionModel:
        """The same model for `vocabulary`, which begins with its own words, with the recipe's options.

        Another model may be named, as long as it has a place for every weight of this one; the rest begins anew.
        """
        name, config = section.name or self.trained.name, self.trained.config.to_json()
        known = {field for field in entry(name).model.Config.__dataclass_fields__ if field != "modalities"}
        options = {key: value for key, value in config.items() if key in known} | section.options
        model = create(name, self.trained.config.modalities, vocabulary, **options)
        # A detector that the recipe asks for is fitted anew.
        anew = "detector." if section.options.get("word_detector") else None
        weights, state = (_without(m.state_dict(), anew) for m in (self.trained, model))
        same = name == self.trained.name
        if not weights.keys() <= state.keys() or (same and weights.keys() != state.keys()):
            raise UserError(
                f"the weights of init_from={self.name} do not fit {name} with these options: {_odd(weights, state)}"
            )
        with torch.no_grad():
            for key, value in weights.items():
                state[key][_rows(key, value, state[key], self, vocabulary)] = value
                if model.config.unigram_bias and value.dim() == 1:
                    state[key][len(value) :] = value.min()  # new words are as rare as the rarest known one
            embedding, known_words = model.embedding.weight, len(self.trained.vocabulary)
            # Those of new words are drawn with the spread of the known ones.
            embedding[known_words:] *= embedding[:known_words].std()
        return model


def _rows(key: str, value: Tensor, place: Tensor, pretrained: Pretrained, vocabulary: Vocabulary) -> slice:
    """The rows of a table that a trained one fills: all, or those of the words that it knows."""
    if value.shape == place.shape:
        return slice(None)
    words = len(pretrained.trained.vocabulary), len(vocabulary)
    if value.dim() == 0 or (len(value), len(place)) != words or value.shape[1:] != place.shape[1:]:
        raise UserError(
            f"the weights of init_from={pretrained.name} do not fit: {key} is {list(value.shape)}, the recipe's model "
            f"has {list(place.shape)}: leave out the options that change its size"
        )
    return slice(len(value))


def _without(tensors: Mapping[str, Tensor], start: str | None) -> dict[str, Tensor]:
    return {key: value for key, value in tensors.items() if start is None or not key.startswith(start)}


def _odd(weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> str:
    key = sorted(weights.keys() ^ state.keys())[0]
    return f"only {'the trained model' if key in weights else 'the new one'} has {key}"


def _made(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """What decides a feature's values, without where it was stored."""
    return {key: (settings or {}).get(key) for key in ("backbone", "sampling")} if settings else {}


def _told(made: Mapping[str, Any]) -> str:
    return f"{made['backbone']} ({made['sampling']} sampling)" if made else "unknown origin"
