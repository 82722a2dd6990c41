"""Score a trained run on a split, and leave the sentences and scores in its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hoca.captioning import load
from hoca.data import FolderDataset, evaluation_batches, read_corpus
from hoca.devices import choose_device
from hoca.errors import UserError, nearest
from hoca.files import replacing
from hoca.metrics import ALL, Evaluator, Scores
from hoca.progress import say, track
from hoca.training.distributed import Processes
from hoca.training.evaluation import BATCH, caption_batches
from hoca.training.recipe import read_recipe


def evaluate(
    run: Path,
    split: str = "test",
    *,
    data: str | None = None,
    modalities: Sequence[str] | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    device: str = "auto",
    metrics: tuple[str, ...] = ALL,
) -> Scores:
    """Caption a split with the run's best checkpoint and score it; leaves `captions-…` and `scores-SPLIT.json`.

    With `modalities`, the model is shown these alone, and their names are part of the files' names.
    """
    here = Processes(0, 1, choose_device(device))
    model = load(run).to(here.device)
    recipe = read_recipe(run / "recipe.yaml")
    dataset = FolderDataset(
        data or recipe.data,
        modalities=list(modalities or model.config.modalities),
        features=recipe.features,
        on_problem=recipe.on_problem,
        report=say,
    )
    for modality, width in dataset.widths.items():
        if modality not in model.config.modalities:
            raise UserError(
                f"the model in {run} has no modality {modality!r}: {nearest(modality, model.config.modalities)}"
            )
        if width != model.config.modalities[modality]:
            raise UserError(
                f"{dataset.folder}: {modality} features are {width} wide, the model in {run} takes "
                f"{model.config.modalities[modality]}: use the features it was trained on"
            )
    videos = dataset.videos(split)
    if not videos:
        raise UserError(f"{dataset.folder} has no videos in the split {split!r}: choose another --split")
    search = replace(
        model.search,
        beam=beam or model.search.beam,
        length_penalty=model.search.length_penalty if length_penalty is None else length_penalty,
    )
    batches = track(evaluation_batches(dataset, split, BATCH), total=-(-len(videos) // BATCH), what=f"{split} batches")
    captions = caption_batches(model, batches, search, here)
    name = "-".join([split, *(modalities or ())])
    _write(run / f"captions-{name}.json", [{"image_id": id, "caption": text} for id, text in captions.items()])
    scores = _score(Evaluator({video.id: video.captions for video in videos}), captions, metrics)
    _write(run / f"scores-{name}.json", scores.corpus)
    return scores


def evaluate_own(run: Path) -> Scores | None:
    """Score a run on its own test videos, or on those it was validated with; on none where there is one or none."""
    corpus = read_corpus(run / "data" / "captions.jsonl")
    split = next((split for split in ("test", "validation") if len(corpus.split(split)) > 1), None)
    if split is None:
        say("no two videos in the splits test or validation: nothing to score")
        return None
    say(f"scores of the {split} videos")
    return evaluate(run, split)


def _score(evaluator: Evaluator, captions: dict[str, str], metrics: tuple[str, ...]) -> Scores:
    """All the metrics; without METEOR, and with a line that says why, where its word lists cannot be had."""
    try:
        return evaluator.evaluate(captions, metrics)
    except UserError as error:
        others = tuple(name for name in metrics if name != "METEOR")
        if others == metrics:
            raise
        scores = evaluator.evaluate(captions, others)  # raises what is not METEOR's
        say(f"METEOR is left out: {error}")
        return scores


def _write(path: Path, value: object) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
