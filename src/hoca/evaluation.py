"""Caption the videos of a dataset and score the sentences."""

from __future__ import annotations

from collections.abc import Iterable

from hoca.data import Batch, FolderDataset, evaluation_batches
from hoca.distributed import Distributed
from hoca.errors import UserError, nearest
from hoca.generation import Search, inference
from hoca.metrics import ALL, Evaluator, Scores
from hoca.models import CaptionModel
from hoca.progress import say

BATCH = 128  # videos that are captioned at once


def caption_batches(model: CaptionModel, batches: Iterable[Batch], search: Search, dist: Distributed) -> dict[str, str]:
    """The best sentence for each video of the batches that this process was given."""
    captions: dict[str, str] = {}
    with inference(model):
        for batch in batches:
            batch = batch.to(dist.device, non_blocking=True)
            found = search(model, model.encode(batch.features, batch.lengths, batch.category))
            captions.update(zip(batch.ids, (texts[0] for texts in found.texts(model.vocabulary)), strict=True))
    return captions


def caption_split(
    model: CaptionModel, dataset: FolderDataset, split: str, search: Search, dist: Distributed
) -> dict[str, str]:
    """The best sentence for each video of a split, on every process the same, in the dataset's order."""
    batches = evaluation_batches(dataset, split, BATCH, rank=dist.rank, world=dist.world)
    mine = caption_batches(model, batches, search, dist)
    found = {id: text for part in dist.gather(mine) for id, text in part.items()}
    return {video.id: found[video.id] for video in dataset.videos(split)}


def check_widths(model: CaptionModel, dataset: FolderDataset, whose: str) -> None:
    """The dataset's features must be as wide as the model takes them; `whose` model that is, for the message."""
    widths = model.config.modalities
    for modality, width in dataset.widths.items():
        if modality not in widths:
            raise UserError(f"{whose} has no modality {modality!r}: {nearest(modality, widths)}")
        if width != widths[modality]:
            raise UserError(
                f"{dataset.folder}: {modality} features are {width} wide, {whose} takes {widths[modality]}: use the "
                f"features it was trained on"
            )


def score(references: dict[str, list[str]], captions: dict[str, str], metrics: tuple[str, ...] = ALL) -> Scores:
    """All the metrics; without METEOR, and with a line that says why, where its word lists are not available."""
    evaluator = Evaluator(references)
    try:
        return evaluator.evaluate(captions, metrics)
    except UserError as error:
        others = tuple(name for name in metrics if name != "METEOR")
        if others == metrics:
            raise
        scores = evaluator.evaluate(captions, others)  # raises what is not METEOR's
        say(f"METEOR is left out: {error}")
        return scores
