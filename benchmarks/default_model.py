"""The model that hoca ships: choose its settings by folds over sources, train it, write its file, fill in its card.

    python benchmarks/default_model.py train --source DATA --jobs 8          (on a GPU; finished runs are kept)
    python benchmarks/default_model.py table                                 -> results/default-model-choice.csv
    python benchmarks/default_model.py train --source DATA --folds dev --seeds 0 1 2 --variants CHOSEN
    python benchmarks/default_model.py train --source DATA --folds final --seeds 0 --variants CHOSEN unary
    python benchmarks/default_model.py ship RUN FILE                         -> a file of src/hoca/shipped
    python benchmarks/default_model.py score                                 -> results/default-model.csv, docs/model-card.md

A run is `recipes/default.yaml` with what a variant changes, on the videos that a fold leaves to learn from: `0` to `4`
are fifths of the sources, `dev` is the dev list, `final` learns from both. Each leaves the sentences that its search
chose among for the videos it did not learn from, so that weights of the search and the confidence are chosen from what
is stored, without a GPU.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "default.yaml"
FOLDS = 5
SOUND, PICTURE = ("image", "audio"), ("image",)
WIDTH = 8  # sentences of a video that are stored

Changes = Mapping[str, Mapping[str, Any]]


def variant(
    *modalities: str, detector: tuple[str, ...] = PICTURE, model: Any = None, **rewards: Any
) -> dict[str, Changes]:
    return {
        "": {"data": {"modalities": list(modalities)}, "model": model or {}},
        "rewards": {"model": {"word_detector": list(detector)}, "train": rewards},
    }


# Variant → stage, or "" for the whole recipe → section → what it changes.
VARIANTS: dict[str, dict[str, Changes]] = {
    "picture": variant("image"),
    "picture and sound": variant("image", "audio", detector=SOUND),
    "picture and change": variant("image", "change"),
    "picture, change and sound": variant("image", "change", "audio", detector=SOUND),
    "picture, 10 epochs of rewards": variant("image", epochs=10, validate_every=10),
    "picture and change, unary": variant("image", "change", model={"name": "hoca-u"}),
}
SIBLING = {
    "": {"model": {"name": "hoca-u", "hidden": 256}},
    "rewards": {"model": {"word_detector": []}, "search": {"detector_weight": 0}},
}
VARIANTS["small unary"] = SIBLING


@dataclass(frozen=True)
class Run:
    variant: str
    fold: str
    seed: int
    folder: Path

    def stored(self, split: str) -> Path:
        return self.folder / f"sentences-{split}.jsonl.gz"


def recipe_of(run: Run, data: Path, words: str | None) -> dict[str, Any]:
    """The recipe as nested values, with what the variant changes in it."""
    values = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    values |= {"run": str(run.folder), "seed": run.seed}
    places = {"": values, **{stage["name"]: stage for stage in values["stages"]}}
    for place, sections in VARIANTS[run.variant].items():
        for section, changed in sections.items():
            places[place][section] = {**places[place].get(section, {}), **changed}
    values["data"]["folder"] = str(data)
    if words:
        places["words"]["data"]["word_vectors"] = words
    return values


def train_one(options: argparse.Namespace, run: Run) -> None:
    from hoca.training import train
    from hoca.training.recipe import Recipe

    train(Recipe.of(recipe_of(run, data_of(options, run.fold), options.words)), resume=True)
    for split in ("test",) if run.fold == "final" else ("validation", "test"):
        rows = list(sentences(run, data_of(options, run.fold), split))
        with gzip.open(run.stored(split), "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def sentences(run: Run, data: Path, split: str) -> Iterator[dict[str, Any]]:
    """The sentences of the beam for each video, in the search's own order, with log-probability, score and evidence."""
    import torch

    from hoca.data import FolderDataset, evaluation_batches
    from hoca.devices import choose_device
    from hoca.checkpoint import load_model
    from hoca.generation import beam_search, inference
    from hoca.generation.evidence import evidence_of

    loaded, device = load_model(run.folder), choose_device("auto")
    model, search = loaded.model.to(device), loaded.search
    dataset = FolderDataset(data, modalities=list(model.config.modalities))
    with inference(model):
        for batch in evaluation_batches(dataset, split, 64):
            batch = batch.to(device)
            memory = model.encode(batch.features, batch.lengths, batch.category)
            found = beam_search(model, memory, search.limits, width=WIDTH, length_penalty=search.length_penalty)
            evidence = torch.zeros_like(found.score)
            if memory.evidence is not None:
                evidence = evidence_of(found, memory.evidence, model.vocabulary.pad)
            for id, texts, *numbers in zip(
                batch.ids,
                found.texts(model.vocabulary),
                *(x.tolist() for x in (found.logprob, found.score, evidence)),
                strict=True,
            ):
                keys = ("text", "logprob", "score", "evidence")
                yield {"id": id, "sentences": [dict(zip(keys, row, strict=True)) for row in zip(texts, *numbers)]}


def data_of(options: argparse.Namespace, fold: str) -> Path:
    return Path(f"{options.data}-{fold}")


def prepare(options: argparse.Namespace) -> None:
    from hoca.data import msrvtt_dinov2

    for fold in options.folds:
        how: dict[str, Any] = {"with_dev": True} if fold == "final" else {}
        if fold.isdigit():
            how = {"fold": int(fold), "folds": FOLDS}
        msrvtt_dinov2.prepare(options.source, data_of(options, fold), msrvtt_dinov2.Options(**how))


def runs_of(options: argparse.Namespace) -> list[Run]:
    return [
        Run(variant, fold, seed, options.runs / f"{variant.replace(', ', '-').replace(' ', '-')}-{fold}-{seed}")
        for seed in options.seeds
        for fold in options.folds
        for variant in options.variants
    ]


def train(options: argparse.Namespace) -> None:
    """Every run that has not stored its sentences yet, `jobs` at a time; one that was cut off is resumed."""
    prepare(options)
    waiting = [run for run in runs_of(options) if not run.stored("test").is_file()]
    running: dict[Run, subprocess.Popen[bytes]] = {}
    begun = time.monotonic()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            run = waiting.pop(0)
            run.folder.parent.mkdir(parents=True, exist_ok=True)
            named = [f"--{key}={value}" for key, value in vars(options).items() if key in ("data", "runs", "words")]
            command = [sys.executable, __file__, "one", run.variant, run.fold, str(run.seed), *named]
            with open(f"{run.folder}.log", "wb") as log:
                environment = os.environ | {"OMP_NUM_THREADS": "1"}
                running[run] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        for run, process in list(running.items()):
            if process.poll() is not None:
                del running[run]
                print(
                    f"{time.monotonic() - begun:.0f} s: {run.folder.name} ended with {process.returncode}", flush=True
                )
        time.sleep(0.2)


def ship(run: Path, out: Path) -> None:
    """A model in bytes, with what is needed to caption and nothing of where it was trained."""
    from hoca.checkpoint import Checkpoint, locate, quantize_int8, read_checkpoint, write_checkpoint

    found = read_checkpoint(locate(run))
    facts = {key: found.facts[key] for key in ("model", "config", "vocabulary", "specification", "search")}
    write_checkpoint(out, Checkpoint(quantize_int8(found.tensors), facts))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "one", "ship"))
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--source", type=Path, help="folder of the research data")
    parser.add_argument("--data", default=str(ROOT / "data" / "msrvtt-dinov2"), help="folders to prepare begin with it")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "default-choice")
    parser.add_argument("--words", default="", help="another file of word vectors than the recipe's")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--folds", nargs="*", default=[str(fold) for fold in range(FOLDS)])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    options = parser.parse_args()
    if options.command == "one":
        variant, fold, seed = options.paths
        options.variants, options.folds, options.seeds = [variant], [fold], [int(seed)]
        train_one(options, runs_of(options)[0])
    elif options.command == "ship":
        ship(*map(Path, options.paths))
    else:
        train(options)


if __name__ == "__main__":
    main()
