"""Checkpoints and recipes of older formats, as the present one says the same. One function per step."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hoca.errors import BadCheckpoint

VERSION = 3
Facts = dict[str, Any]

# Keys of the flat recipes of format 1 → where they stand now.
FLAT_KEYS = {
    "start": "init_from",
    "data": "data.folder",
    "minimum_count": "data.min_count",
    "vectors": "data.word_vectors",
    "model": "model.name",
    "detects": "model.word_detector",
    "batch": "train.batch_size",
    "captions": "train.captions_per_video",
    "objective": "train.objective",
    "likelihood": "train.xe_weight",
    "average": "train.ema_decay",
    "step": "train.cuda_graph",
    "evidence": "search.detector_weight",
    **{key: key for key in ("run", "seed", "device")},
    **{
        key: f"data.{key}"
        for key in ("videos", "features", "modalities", "on_problem", "vocabulary", "max_words", "category_vectors")
    },
    **{
        key: f"model.{key}"
        for key in (
            *("orders", "groups", "rank", "merge", "fusion", "share_projections", "hidden", "attention", "embedding"),
            *("dropout", "encoder_dropout", "normalise", "tie_words", "max_steps"),
        )
    },
    **{
        key: f"train.{key}"
        for key in (
            *("modality_dropout", "epochs", "learning_rate", "schedule", "warmup", "weight_decay"),
            *("samples", "label_smoothing", "gradient_clip", "precision", "workers", "patience", "validate_every"),
            "checkpoint_every",
        )
    },
    **{key: f"search.{key}" for key in ("beam", "length_penalty", "max_length", "no_repeat")},
}
GONE = {
    "drawn": "train.objective: scst-loo or beam-reward",
    "bottleneck": "model.tie_words",
    "step_dropout": "train.modality_dropout",
}
OFF = (("model", "bottleneck"), ("train", "step_dropout"))  # section and key of format 2, gone since nobody set them


def version_of(name: str | None, path: Path) -> int:
    """The number of a file's format."""
    found = re.fullmatch(r"hoca-checkpoint-([1-9]\d{0,5})", name or "")
    if not found:
        raise BadCheckpoint(f"{path} is no checkpoint of hoca: give a run folder or one of its checkpoints")
    if int(found[1]) > VERSION:
        raise BadCheckpoint(f"{path} was written by a newer hoca (format {found[1]}): update hoca to read it")
    return int(found[1])


def migrate(facts: Facts, version: int) -> Facts:
    """What a checkpoint of an older format says, as the present one says it."""
    for older in range(version, VERSION):
        facts = STEPS[older](facts)
    return facts


def from_1(facts: Facts) -> Facts:
    """Format 1 had no name of the model and no search settings but a flat recipe, of which a model needs two parts."""
    if not isinstance(facts.get("recipe"), Mapping) or not isinstance(facts.get("config"), Mapping):
        return facts
    config = {("word_detector" if key == "detects" else key): value for key, value in facts["config"].items()}
    recipe = sections(facts["recipe"])
    # Of a run that began from another one, the recipe's name of a model meant nothing.
    named = None if recipe.get("init_from") else recipe.get("model", {}).get("name")
    new = facts | {
        "model": named or _name(config),
        "config": config,
        "recipe": recipe,
        "search": recipe.get("search", {}),
    }
    if isinstance(facts.get("progress"), Mapping) and "loss" in facts["progress"]:
        progress = dict(facts["progress"])
        new["progress"] = progress | {"losses": {"loss": progress.pop("loss")}}
        new["progress"].pop("loss", None)
        losses = facts.get("losses")
        new["losses"] = [{"loss": loss} for loss in losses] if isinstance(losses, list) else []
    return new


def from_2(facts: Facts) -> Facts:
    """Format 2 named two options that are gone; a model that used one is refused by name."""
    new = dict(facts)
    if isinstance(config := facts.get("config"), Mapping) and config.get("bottleneck") == 0:
        new["config"] = {key: value for key, value in config.items() if key != "bottleneck"}
    if isinstance(facts.get("recipe"), Mapping):
        new["recipe"] = without_gone(facts["recipe"])
    return new


def without_gone(recipe: Mapping[str, Any]) -> Facts:
    """A recipe of format 2 without the keys that are gone, where they changed nothing."""
    new = dict(recipe)
    for section, name in OFF:
        given = new.get(section)
        if isinstance(given, Mapping) and given.get(name) == 0:
            new[section] = {key: value for key, value in given.items() if key != name}
    return new


def sections(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A flat recipe of format 1 in the sections of today."""
    recipe: dict[str, Any] = {}
    for key, value in flat.items():
        if key not in FLAT_KEYS:
            continue
        section, dot, name = FLAT_KEYS[key].rpartition(".")
        place = recipe.setdefault(section, {}) if dot else recipe
        place[name] = value
    train = recipe.get("train", {})
    if "objective" in train:
        rewarded = "beam-reward" if flat.get("drawn") == "beam" else "scst-loo"
        train["objective"] = rewarded if train["objective"] == "reward" else "xe"
    if "cuda_graph" in train:
        train["cuda_graph"] = {"plain": "off", "captured": "on"}.get(str(train["cuda_graph"]), "auto")
    for key in ("orders", "groups", "word_detector"):  # empty said: as the model's name has it
        if key in recipe.get("model", {}) and not recipe["model"][key]:
            del recipe["model"][key]
    return recipe


def _name(config: Mapping[str, Any]) -> str:
    """What the paper calls a model of these groups; all its names share one class."""
    groups = config.get("groups")
    sizes = {len(group) for group in groups if isinstance(group, list)} if isinstance(groups, list) else set()
    orders = "".join("ubt"[order - 1] for order in sorted(sizes) if 1 <= order <= 3)
    if orders == "u" or orders not in ("b", "t", "ub", "ubt"):
        return "hoca-u"
    return f"l-hoca-{orders}" if config.get("form", "low-rank") == "low-rank" else f"hoca-{orders}"


STEPS: dict[int, Callable[[Facts], Facts]] = {1: from_1, 2: from_2}
