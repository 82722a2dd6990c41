"""How features are made, as a plain dict: it goes into feature files and checkpoints, and makes them again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hoca import assets
from hoca.errors import UserError
from hoca.features.backbones import Backbone, backbone
from hoca.features.store import Specification

IMAGE, MOTION, AUDIO = "dinov2-small", "i3d-kinetics-400", "soundnet-8"


def specify(
    image: str | None = IMAGE,
    motion: str | None = MOTION,
    audio: str | None = AUDIO,
    sampling: Literal["default", "paper"] = "default",
    *,
    change: bool = False,
) -> Specification:
    """The features to make. A backbone is written as on the command line (`parse_backbone`); None leaves one out.

    change: also the difference of neighbouring pictures, a modality that costs nothing.
    """
    texts = {"image": image, "motion": motion, "audio": audio}
    chosen = {modality: parse_backbone(text, modality) for modality, text in texts.items() if text is not None}
    made = {
        modality: _settings(found, weights, sampling)
        for modality, both in chosen.items()
        if both is not None
        for found, weights in [both]
    }
    if change:
        if "image" not in made:
            raise UserError("change is the difference of neighbouring pictures: give a backbone for them")
        made["change"] = {**made["image"], "steps": max(made["image"]["steps"] - 1, 1), "difference": "image"}
    return made


def light(image: int = 20, motion: int = 20, audio: int = 16) -> Specification:
    """The built-in features without weights, with so many steps each; 0 leaves a modality out."""
    steps = {"image": image, "motion": motion, "audio": audio}
    return {
        name: {"backbone": f"light-{name}", "weights": None, "sampling": "even", "steps": count}
        for name, count in steps.items()
        if count
    }


def parse_backbone(text: str, modality: str) -> tuple[Backbone, str | None] | None:
    """`NAME`, `NAME=FILE` (weights that the user provides), `hf:FOLDER` or `none` → the backbone, its weights' hash."""
    if text.lower() == "none":
        return None
    name, _, file = (text, "", "") if text.startswith("hf:") else text.partition("=")
    found = backbone(name, modality)
    if found.kind != modality:
        raise UserError(f"--{modality} {text}: {name} is a backbone for {found.kind}: give it as --{found.kind}")
    if file:
        if found.asset is None or assets.from_user(found.asset) is None:
            raise UserError(f"--{modality} {text}: {name} takes no file, its weights are fetched: leave out ={file}")
        return found, assets.identity(found.asset, assets.pull(found.asset, Path(file)))
    return found, default_weights(found)


def default_weights(found: Backbone) -> str | None:
    """Hash of the weights that are used when none are named."""
    if found.asset is None:
        return found.weights
    if found.asset in assets.PROVIDED:
        return assets.provided_hash(found.asset)
    return assets.TABLE[found.asset].sha256


def weights_file(found: Backbone, settings: Mapping[str, Any]) -> Path | None:
    """The converted weights that a specification asks for; fetched if that is possible."""
    wanted = settings.get("weights") or default_weights(found)
    if found.asset is None:
        if wanted != found.weights:
            raise UserError(f"{found.name} has changed since these features were made: extract them again")
        return None
    if found.asset in assets.TABLE and wanted == assets.TABLE[found.asset].sha256:
        return assets.path(found.asset)
    row = assets.from_user(found.asset)
    if row is None:
        raise UserError(f"these features were made with other weights of {found.name}: extract them again")
    assert wanted is not None
    return assets.provided_file(row, wanted)


def _settings(found: Backbone, weights: str | None, sampling: str) -> dict[str, Any]:
    return {
        "backbone": found.name,
        "weights": weights,
        "sampling": sampling,
        "steps": found.steps[sampling],
        "width": found.width,
        "version": found.version,
    }
