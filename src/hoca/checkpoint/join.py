"""One checkpoint out of several trained ones: an ensemble of their models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from hoca.checkpoint.file import Checkpoint
from hoca.checkpoint.model import LoadedModel, load_model, model_facts
from hoca.errors import BadCheckpoint, UserError
from hoca.models import CaptionModel, ModelConfig, create
from hoca.models.ensemble import COMMON, Ensemble

DETECTOR = "detector."  # begins the names of a word detector's weights


def join(models: Sequence[Path | str]) -> Checkpoint:
    """The ensemble of several run folders or checkpoints; its search, confidence and word detector are the first's."""
    if not models:
        raise UserError("nothing to join: give run folders or checkpoints")
    loaded = [load_model(each) for each in models]
    for name, each in zip(models, loaded, strict=True):
        _check_alike(models[0], loaded[0], name, each)
    first = loaded[0]
    with torch.device("meta"):  # its shapes alone: the weights are there already
        ensemble = _ensemble([each.model for each in loaded])
    facts = model_facts(ensemble, first.specification, first.search)
    if first.confidence is not None:
        facts["confidence"] = first.confidence.to_json()
    weights = {key: value for key, value in first.model.state_dict().items() if key.startswith(DETECTOR)}
    for number, each in enumerate(loaded):
        weights |= {
            f"members.{number}.{key}": value
            for key, value in each.model.state_dict().items()
            if not key.startswith(DETECTOR)
        }
    return Checkpoint({f"model.{key}": value for key, value in weights.items()}, facts)


def _ensemble(models: Sequence[CaptionModel]) -> CaptionModel:
    first = models[0]
    members = [
        {"name": model.name} | {key: value for key, value in model.config.to_json().items() if key not in COMMON}
        for model in models
    ]
    shared = {each.name: getattr(first.config, each.name) for each in fields(ModelConfig)}
    modalities = shared.pop("modalities")
    shared["max_steps"] = {m: min(model.config.max_steps[m] for model in models) for m in modalities}
    return create("ensemble", modalities, first.vocabulary, **shared, members=members)


def _check_alike(first_name: Path | str, first: LoadedModel, name: Path | str, other: LoadedModel) -> None:
    """Refuse what cannot be joined with the first model."""
    if isinstance(other.model, Ensemble):
        raise BadCheckpoint(f"{name} is an ensemble already: join the checkpoints that it was made of")
    ours, theirs = _basis(first), _basis(other)
    if odd := [what for what in ours if ours[what] != theirs[what]]:
        raise BadCheckpoint(f"{name} does not have the {odd[0]} of {first_name}: only models of the same can be joined")


def _basis(loaded: LoadedModel) -> dict[str, Any]:
    config = loaded.model.config
    return {
        "vocabulary": loaded.model.vocabulary,
        "modalities": list(config.modalities.items()),  # in their order
        "categories": (config.categories, config.category_width),
        "feature specification": loaded.specification,
    }
