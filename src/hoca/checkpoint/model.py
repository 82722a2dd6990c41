"""A captioner, its features and its search from a checkpoint, and what a checkpoint says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hoca.checkpoint.file import Checkpoint, read_checkpoint
from hoca.checkpoint.folder import locate
from hoca.errors import BadCheckpoint, UserError
from hoca.generation import Confidence, Search
from hoca.models import CaptionModel, restore
from hoca.models.config import STEPS
from hoca.options import shortened
from hoca.text import Vocabulary

MIXED_UP = "the weights do not fit its own configuration and vocabulary: it was edited or mixed up"


@dataclass(frozen=True)
class LoadedModel:
    model: CaptionModel
    specification: dict[str, Any]  # modality → how its features are made
    search: Search
    confidence: Confidence | None = None  # how sure to be of a sentence, where that was fitted


def model_facts(model: CaptionModel, specification: dict[str, Any], search: Search) -> dict[str, Any]:
    """What a checkpoint says besides its weights: enough to caption a file."""
    return {
        "model": model.name,
        "config": model.config.to_json(),
        "vocabulary": model.vocabulary.to_json(),
        "specification": specification,
        "search": search.to_json(),
    }


def load_model(model: Path | str | None = None) -> LoadedModel:
    """The model that hoca ships, a run folder's best checkpoint or a checkpoint file."""
    path = locate(model)
    return restore_model(read_checkpoint(path), path)


def restore_model(checkpoint: Checkpoint, path: Path | str) -> LoadedModel:
    """The model of a checkpoint; `path` is named where something is wrong with it."""
    facts = checkpoint.facts
    for name in ("model", "config", "vocabulary", "specification", "search"):
        if name not in facts:
            raise BadCheckpoint(f"the checkpoint {path} does not tell its {name}: it was not written by `hoca train`")
    weights = checkpoint.part("model")
    try:
        vocabulary = Vocabulary.from_json(facts["vocabulary"])
        with torch.device("meta"):  # shapes without memory: a header may claim any size
            shapes = restore(facts["model"], facts["config"], vocabulary).state_dict()
        _check_weights(weights, shapes, len(vocabulary))
        model = restore(facts["model"], facts["config"], vocabulary)
        specification = _specification(facts["specification"])
        search = Search.from_json(facts["search"])
        confidence = Confidence.from_json(facts["confidence"]) if "confidence" in facts else None
    except UserError as error:
        raise BadCheckpoint(f"the checkpoint {path}: {error}") from None
    model.load_state_dict(weights)
    return LoadedModel(model.eval(), specification, search, confidence)


def _check_weights(weights: Mapping[str, Tensor], shapes: Mapping[str, Tensor], words: int) -> None:
    """Refuse weights that are not those of the model which the checkpoint describes."""
    if odd := sorted(weights.keys() ^ shapes.keys()):
        which = "superfluous" if odd[0] in weights else "missing"
        raise UserError(f"{MIXED_UP} ({shortened(odd[0])} is {which})")
    for key, value in weights.items():
        expected = shapes[key]
        if value.shape != expected.shape or value.is_floating_point() != expected.is_floating_point():
            raise UserError(f"{MIXED_UP} ({key} is {list(value.shape)}, expected {list(expected.shape)})")
        # What is kept in integers are the ids of words, -1 = none.
        if not value.is_floating_point() and not bool(((value >= -1) & (value < words)).all()):
            raise UserError(f"{MIXED_UP} ({key} names words that the vocabulary has not)")


def _specification(given: Any) -> dict[str, Any]:
    """How the features are made, of the types that its readers rely on; more is checked where it is used."""
    if not isinstance(given, dict) or not all(isinstance(how, dict) for how in given.values()):
        raise UserError("its specification is no table of modalities: it was edited or mixed up")
    for modality, how in given.items():
        steps = how.get("steps", 1)
        if not isinstance(steps, int) or not 1 <= steps < STEPS:
            raise UserError(f"its specification asks for {shortened(steps)} steps of {shortened(modality)}")
        if not all(isinstance(how.get(key), str | None) for key in ("backbone", "weights", "sampling", "difference")):
            raise UserError(f"its specification of {shortened(modality)} names a backbone or weights that are no text")
    return given
