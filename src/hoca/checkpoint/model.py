"""A captioner, its features and its search from a checkpoint, and what a checkpoint says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoca.checkpoint.file import Checkpoint, read_checkpoint
from hoca.checkpoint.folder import locate
from hoca.errors import UserError
from hoca.generation import Confidence, Search
from hoca.models import CaptionModel, restore
from hoca.text import Vocabulary


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
            raise UserError(f"the checkpoint {path} does not tell its {name}: it was not written by `hoca train`")
    try:
        model = restore(facts["model"], facts["config"], Vocabulary.from_json(facts["vocabulary"]))
        search = Search.from_json(facts["search"])
        confidence = Confidence.from_json(facts["confidence"]) if "confidence" in facts else None
    except UserError as error:
        raise UserError(f"the checkpoint {path}: {error}") from None
    try:
        model.load_state_dict(checkpoint.part("model"))
    except RuntimeError as error:
        raise UserError(
            f"the weights in {path} do not fit its own configuration and vocabulary: it was edited or mixed up"
        ) from error
    return LoadedModel(model.eval(), facts["specification"], search, confidence)
