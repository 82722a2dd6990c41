"""Score a trained run on a split, and leave the sentences and scores in its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hoca.checkpoint import load_model
from hoca.data import FolderDataset, evaluation_batches, read_corpus
from hoca.devices import choose_device
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.evaluation import BATCH, caption_batches, check_widths, score
from hoca.files import replacing
from hoca.metrics import ALL, Scores, write_captions
from hoca.progress import say, track
from hoca.threads import threads_for, use_threads
from hoca.training.recipe import read_run


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
    out: Path | None = None,
) -> Scores:
    """Caption a split with the run's best checkpoint and score it; leaves `captions-…` and `scores-SPLIT.json`.

    With `modalities`, the model is shown these alone, and their names are part of the files' names. out: another file
    for the captions, as its ending says: .csv, .json or JSON lines.
    """
    dist = Distributed(0, 1, choose_device(device))
    loaded, recipe = load_model(run), read_run(run).in_stages()[-1]
    model, search = loaded.model.to(dist.device), loaded.search
    dataset = FolderDataset(
        data or recipe.data.folder,
        modalities=list(modalities or model.config.modalities),
        features=recipe.data.features,
        on_problem=recipe.data.on_problem,
        report=say,
    )
    check_widths(model, dataset, f"the model in {run}")
    dataset.number_categories(model.config.categories)
    videos = dataset.videos(split)
    if not videos:
        raise UserError(f"{dataset.folder} has no videos in the split {split!r}: choose another --split")
    search = replace(
        search,
        beam=beam or search.beam,
        length_penalty=search.length_penalty if length_penalty is None else length_penalty,
    )
    batches = track(evaluation_batches(dataset, split, BATCH), total=-(-len(videos) // BATCH), what=f"{split} batches")
    weights = sum(parameter.numel() for parameter in model.parameters())
    with use_threads(threads_for(weights * min(BATCH, len(videos)) * search.beam)):
        captions = caption_batches(model, batches, search, dist)
    name = "-".join([split, *(modalities or ())])
    for file in filter(None, (run / f"captions-{name}.json", out)):
        write_captions(captions, file)
    scores = score(dataset.corpus.references(split), captions, metrics)
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


def _write(path: Path, value: object) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
