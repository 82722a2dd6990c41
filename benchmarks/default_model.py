"""The model that hoca ships: choose its settings by folds over sources, train it, write its file, fill in its card.

    python benchmarks/default_model.py train --source DATA --jobs 16         (on a GPU; finished runs are kept)
    python benchmarks/default_model.py train --source DATA --folds dev --seeds 0 1 2 --variants 'picture and change'
    python benchmarks/default_model.py train --source DATA --folds final --seeds 1 --variants 'picture and change'
    python benchmarks/default_model.py train --source DATA --folds dev final --variants 'small unary'
    python benchmarks/default_model.py ensembles --source DATA --folds 0 1 2 3 4 dev --seeds 0 1 2 --variants 'picture'
    python benchmarks/default_model.py table --source DATA      -> results/default-model-choice.csv, docs/model-card.md
    python benchmarks/default_model.py confidence --source DATA -> results/default-model-confidence.csv, confidence.json
    python benchmarks/default_model.py ship RUN [RUN ...] FILE [--confidence JSON]  -> a file of src/hoca/shipped
    python benchmarks/default_model.py score --source DATA      -> results/default-model.csv, docs/model-card.md

A run is the recipe `default` with what a variant changes, on the videos that a fold leaves to learn from: `0` to `4`
are fifths of the sources, `dev` is the dev list, `final` learns from both. Each leaves the sentences that its search
chose among for the videos it did not learn from, so that weights of the search and the confidence are chosen from what
is stored, without a GPU. Several runs can be shipped as one model, and `ensembles` leaves the sentences of such a
model: of the first two seeds together, the first three, and so on.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "src" / "hoca" / "recipes" / "default.yaml"
FOLDS = 5
SOUND, PICTURE = ("image", "audio"), ("image",)
WIDTH = 8  # sentences of a video that are stored

Changes = Mapping[str, Mapping[str, Any]]
Sentence = dict[str, Any]  # text, logprob, score, evidence


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
    "picture and change, ROUGE-L in the reward": variant("image", "change", rouge_weight=3.0),
    "picture and change, METEOR in the reward": variant("image", "change", meteor_weight=5.0),
    "picture and change, small": variant("image", "change", model={"hidden": 256}),
}
SIBLING = {
    "": {"model": {"name": "hoca-u", "hidden": 256}},
    "rewards": {"model": {"word_detector": []}, "search": {"detector_weight": 0}},
}
COMPARED, CHOSEN = list(VARIANTS), "picture and change"
VARIANTS["small unary"] = SIBLING
BEFORE = "before"  # rows of runs that were trained before two faults of rewards were fixed
MEMBERS = 8  # at most, of an ensemble
TOGETHER = {f"{name}, {count} together": name for name in VARIANTS for count in range(2, MEMBERS + 1)}
# Of the sentences of what is shipped: those that began so were "there is a man is talking" and its like.
NOT_FIRST = ("there",)
WEIGHT = 0.3  # of the detected words in the choice among sentences, chosen among 0, 0.2, 0.3 and 0.4 on the folds
SCORES = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr")
EXAMPLES = 20
FOLDED, SHOWN = "five folds", "official-val frames"  # videos of the confidence's rows
LOGPROB = "log-probability per word"
PICTURE_AND_CHANGE = ("image", "change")


@dataclass(frozen=True)
class Run:
    variant: str
    fold: str
    seed: int
    folder: Path

    def stored(self, split: str) -> Path:
        return self.folder / f"sentences-{split}.jsonl.gz"

    @property
    def loss(self) -> Path:
        return self.folder / "loss-validation.json"


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

    share_words(options, run)
    train(Recipe.of(recipe_of(run, data_of(options, run.fold), options.words)), resume=True)
    if run.fold != "final":
        store_loss(options, run)
    for split in ("test",) if run.fold == "final" else ("validation", "test"):
        store(options, run, split)


def store_loss(options: argparse.Namespace, run: Run) -> None:
    """Of the words on the videos not learned from, when they are learned: rewards raise it for better sentences."""
    from experiment import nats_per_word

    from hoca.checkpoint import load_model
    from hoca.data import FolderDataset

    model = load_model(run.folder / "1-words").model
    dataset = FolderDataset(data_of(options, run.fold), modalities=list(model.config.modalities))
    run.loss.write_text(json.dumps(nats_per_word(model, dataset, "validation")))


def share_words(options: argparse.Namespace, run: Run) -> None:
    """Begin with the words of a variant that differs in its rewards alone, where its run has learned them already."""

    def learned(each: Run) -> dict[str, Any]:
        recipe = recipe_of(each, data_of(options, each.fold), options.words)
        return recipe | {"run": "", "stages": [stage for stage in recipe["stages"] if stage["name"] == "words"]}

    words = run.folder / "1-words"
    for other in runs_of(replaced(options, list(VARIANTS), [run.fold], [run.seed])):
        if not words.exists() and (other.folder / "2-rewards").exists() and learned(other) == learned(run):
            shutil.copytree(other.folder / words.name, words, ignore=shutil.ignore_patterns(".lock"))


def store(options: argparse.Namespace, run: Run, split: str) -> None:
    rows = list(sentences(run, data_of(options, run.fold), split))
    with gzip.open(run.stored(split), "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def sentences(run: Run, data: Path, split: str) -> Iterator[dict[str, Any]]:
    """The sentences of the beam for each video, in the search's own order, with log-probability, score and evidence."""
    import torch

    from hoca.checkpoint import load_model
    from hoca.data import FolderDataset, evaluation_batches
    from hoca.devices import choose_device
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
                yield {
                    "id": id,
                    "sentences": [dict(zip(keys, row, strict=True)) for row in zip(texts, *numbers, strict=False)],
                }


def data_of(options: argparse.Namespace, fold: str) -> Path:
    return Path(f"{options.data}-{fold}")


def prepare(options: argparse.Namespace) -> None:
    from hoca.data import msrvtt_dinov2

    for fold in options.folds:
        how: dict[str, Any] = {"with_dev": True} if fold == "final" else {}
        if fold.isdigit():
            how = {"fold": int(fold), "folds": FOLDS}
        msrvtt_dinov2.prepare(options.source, data_of(options, fold), msrvtt_dinov2.DinoOptions(**how))


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


def ensembles(options: argparse.Namespace) -> None:
    """The finished runs of each variant and fold together, first two of the seeds, then three, and so on."""
    from hoca.checkpoint import Checkpoints, join, write_checkpoint

    prepare(options)
    for variant in options.variants:
        for fold in options.folds:
            runs = runs_of(replaced(options, [variant], [fold], options.seeds))
            split = "test" if fold == "final" else "validation"
            members = [run for run in runs if run.stored(split).is_file()]
            if len(members) < len(runs):
                print(f"{variant}, fold {fold}: {len(members)} of {len(runs)} runs are finished")
            for count in range(2, len(members) + 1):
                name = f"{variant}, {count} together"
                together = runs_of(replaced(options, [name], [fold], [members[0].seed]))[0]
                joined = join([run.folder for run in members[:count]])
                write_checkpoint(Checkpoints(together.folder).best, joined)
                store(options, together, split)
                print(together.folder, flush=True)


def stored(run: Run, split: str) -> dict[str, list[Sentence]]:
    """The sentences of each video, best first, as the shipped model's search orders them."""
    with gzip.open(run.stored(split), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    weight = 0 if VARIANTS[TOGETHER.get(run.variant, run.variant)] is SIBLING else WEIGHT
    return {
        row["id"]: sorted(row["sentences"], key=lambda one: -one["score"] - weight * one["evidence"]) for row in rows
    }


def table(options: argparse.Namespace) -> None:
    """Scores of every variant on the videos that its runs did not learn from, and paired differences.

    These are from `picture`; on the dev list from `picture and change` of the same seed. Rows of the table whose runs
    are not here stay.
    """
    from hoca.data import msrvtt_dinov2
    from hoca.metrics import Evaluator

    examples = {each.video.id: each for each in msrvtt_dinov2.videos(options.source, msrvtt_dinov2.DinoOptions())}
    of_video: dict[str, dict[str, float]] = {}
    rows: list[dict[str, Any]] = []
    names = [*VARIANTS, *TOGETHER]
    for variant, folds, seeds in [(name, FOLDS, [0]) for name in names] + [(name, 0, range(3)) for name in names]:
        named = [str(fold) for fold in range(folds)] or ["dev"]
        runs = [
            run for run in runs_of(replaced(options, [variant], named, seeds)) if run.stored("validation").is_file()
        ]
        for part in [runs] if folds else [[run] for run in runs]:
            if not part:
                continue
            scores, each, sentences_said = [], {}, []
            losses = [float(run.loss.read_text()) for run in part if run.loss.is_file()]
            for run in part:
                said = {id: best[0]["text"] for id, best in stored(run, "validation").items()}
                found = Evaluator({id: examples[id].video.captions for id in said}).evaluate(said)
                scores.append(found.corpus)
                each |= {id: 100 * video["CIDEr"] for id, video in found.per_video.items()}
                sentences_said += said.values()
            of_video[variant if folds else f"{variant} {part[0].seed}"] = each
            row = {
                "variant": variant,
                "rewards": earned(variant),
                "validated with": f"{len(part)} of {FOLDS} folds" if folds else "dev list",
                "seed": part[0].seed,
                "videos": len(each),
                "loss": round(fmean(losses), 3) if len(losses) == len(part) else "",
                **{name: round(100 * fmean(one[name] for one in scores), 2) for name in SCORES},
                "different": len(set(sentences_said)),
            }
            base = of_video.get("picture" if folds else f"picture and change {part[0].seed}", {})
            both = [id for id in each if id in base]
            for name, ids in (
                ("CIDEr - first", both),
                ("of clips with sound", [id for id in both if folds and "audio" in examples[id].features]),
            ):
                of = {id: examples[id].video.attributes["url"] for id in ids}
                row[name] = interval({id: each[id] - base[id] for id in ids}, of) if ids and each != base else ""
            rows.append(row)
    path = options.results / "default-model-choice.csv"
    with open(path, newline="", encoding="utf-8") as file:
        before = {_key(row): row for row in csv.DictReader(file)}
    columns = [*rows[0]] if rows else [*next(iter(before.values()))]
    kept = [
        {name: row.get(name, "") for name in columns} | {"rewards": row.get("rewards", BEFORE)}
        for row in (before | {_key(row): row for row in rows}).values()
    ]
    rows = sorted(
        kept,
        key=lambda row: (row["validated with"] == "dev list", row["rewards"] != BEFORE, names.index(row["variant"])),
    )
    write(path, rows)
    fill(options.card, {"choice": markdown(rows)})


def earned(variant: str) -> str:
    """What the sentences of a variant are rewarded with."""
    train = VARIANTS[TOGETHER.get(variant, variant)]["rewards"].get("train", {})
    weights = {"METEOR": train.get("meteor_weight"), "ROUGE-L": train.get("rouge_weight")}
    return " + ".join(["CIDEr-D", *(f"{weight:g} {name}" for name, weight in weights.items() if weight)])


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["variant"], row.get("rewards", BEFORE), row["validated with"], str(row["seed"])


def interval(values: Mapping[str, float], source: Mapping[str, str]) -> str:
    """The mean, and its 95 % interval by drawing sources again and again."""
    by_source: dict[str, list[float]] = {}
    for id, value in values.items():
        by_source.setdefault(source[id], []).append(value)
    sums, counts = np.array([[sum(group), len(group)] for group in by_source.values()]).T
    drawn = np.random.default_rng(0).integers(len(sums), size=(2000, len(sums)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{sums.sum() / counts.sum():+.1f} [{low:+.1f}, {high:+.1f}]"


def confidence(options: argparse.Namespace) -> None:
    """Fit the confidence on the folds' sentences, and measure it where each fold is left out of the fit."""
    from hoca.data import msrvtt_dinov2

    captions = {
        each.video.id: each.video.captions for each in msrvtt_dinov2.videos(options.source, msrvtt_dinov2.DinoOptions())
    }
    given, good, cider, fold = [], [], [], []
    for run in runs_of(replaced(options, [CHOSEN], [str(number) for number in range(FOLDS)], [0])):
        found = stored(run, "validation")
        references = {id: captions[id] for id in found}
        mine = per_video(references, {id: best[0]["text"] for id, best in found.items()})
        human = median_of_people(references)
        given.append(np.stack([_signals(best) for best in found.values()]))
        good += [mine[id] > human[id] for id in found]
        cider += [mine[id] for id in found]
        fold += [int(run.fold)] * len(found)
    x, y, score, part = np.concatenate(given), np.array(good), np.array(cider), np.array(fold)
    rows = []
    for name, columns in ((LOGPROB, [0]), ("all three", [0, 1, 2])):
        p = np.zeros(len(y))
        for left_out in range(FOLDS):
            weights = fit_logistic(x[part != left_out][:, columns], y[part != left_out])
            p[part == left_out] = logistic(x[part == left_out][:, columns], weights)
        rows.append(measured(name, FOLDED, p, y, score))
    weights = fit_logistic(x, y)
    names = ("logprob", "evidence", "agreement", "bias")
    chosen = dict(zip(names, [round(float(value), 4) for value in weights], strict=True))
    (options.runs / "confidence.json").write_text(json.dumps(chosen))
    print(chosen)
    write_confidence(options, rows)


def measured(name: str, videos: str, p: np.ndarray, good: np.ndarray, cider: np.ndarray) -> dict[str, Any]:
    """A row of the confidence's table; of what is no probability there is only the order."""
    from hoca.captioning.caption import UNSURE

    row = {"from": name, "videos": videos, "count": len(good), "as good as a person's": f"{good.mean():.3f}"}
    probable = bool(((p >= 0) & (p <= 1)).all())
    chance = np.random.default_rng(0).random((1000, len(p))) < p  # as if each probability were the truth
    unsure = p < UNSURE
    return row | {
        "calibration error": f"{calibration_error(p, good):.3f}" if probable else "",
        "by chance": f"{fmean(calibration_error(p, drawn) for drawn in chance):.3f}" if probable else "",
        "Spearman with CIDEr": f"{spearman(p, cider):.3f}",
        "area under the curve": f"{area(p, good):.3f}",
        "marked ?": int(unsure.sum()) if probable else "",
        "of them good": f"{good[unsure].mean():.3f}" if probable and unsure.any() else "",
    }


def write_confidence(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """In place of the rows of the same videos."""
    path = options.results / "default-model-confidence.csv"
    if path.is_file():
        with open(path, newline="", encoding="utf-8") as file:
            kept = [row for row in csv.DictReader(file) if row["videos"] not in {new["videos"] for new in rows}]
        rows = sorted([*kept, *rows], key=lambda row: row["videos"] != FOLDED)
    write(path, rows)
    fill(options.card, {"confidence": markdown(rows)})


def _signals(sentences: list[Sentence]) -> np.ndarray:
    """As `hoca.generation.confidence.signals` has them, from what was stored."""
    import torch

    from hoca.generation import Hypotheses
    from hoca.generation.confidence import signals
    from hoca.text import Vocabulary

    texts = [one["text"] for one in sentences]
    words = Vocabulary.build(texts)
    rows = [words.encode(text) for text in texts]
    longest = max(map(len, rows))
    ids = torch.tensor([[row + [words.pad] * (longest - len(row)) for row in rows]])
    numbers = {key: torch.tensor([[one[key] for one in sentences]]) for key in ("logprob", "score", "evidence")}
    return signals(Hypotheses(ids, numbers["logprob"], numbers["score"]), numbers["evidence"])[0].numpy()


def per_video(references: Mapping[str, Sequence[str]], said: Mapping[str, str]) -> dict[str, float]:
    from hoca.metrics import Evaluator

    found = Evaluator({id: list(captions) for id, captions in references.items()}).evaluate(dict(said), ("CIDEr",))
    return {id: video["CIDEr"] for id, video in found.per_video.items()}


def median_of_people(references: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """For each video, the median over its captions of the CIDEr of one against the others."""
    scores: dict[str, list[float]] = {id: [] for id in references}
    for number in range(max(map(len, references.values()))):
        having = {id: captions for id, captions in references.items() if number < len(captions)}
        others = {id: [*captions[:number], *captions[number + 1 :]] for id, captions in having.items()}
        for id, value in per_video(others, {id: captions[number] for id, captions in having.items()}).items():
            scores[id].append(value)
    return {id: statistics.median(values) for id, values in scores.items()}


def fit_logistic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights and bias by Newton's method; x [N, D], y [N]."""
    x, weights = np.column_stack([x, np.ones(len(x))]), np.zeros(x.shape[1] + 1)
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ weights))
        weights = weights + np.linalg.solve(
            (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(x.shape[1]), x.T @ (y - p)
        )
    return weights


def logistic(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(x @ weights[:-1] + weights[-1])))


def calibration_error(p: np.ndarray, y: np.ndarray, bins: int = 10) -> float:
    """The mean distance of confidence and truth over as many equally large parts, by confidence."""
    parts = np.array_split(np.argsort(p), bins)
    return float(sum(len(part) * abs(p[part].mean() - y[part].mean()) for part in parts) / len(p))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def area(p: np.ndarray, y: np.ndarray) -> float:
    """The probability that a good sentence has more confidence than another."""
    ranks = np.argsort(np.argsort(p)) + 1
    good = int(y.sum())
    return float((ranks[y].sum() - good * (good + 1) / 2) / (good * (len(y) - good)))


def ship(runs: Sequence[Path], out: Path, confidence_file: Path | None = None) -> None:
    """A model in bytes, several runs as one, with what is needed to caption and nothing of where it was trained."""
    from hoca.checkpoint import Checkpoint, join, locate, quantize_int8, read_checkpoint, write_checkpoint

    found = join(runs) if len(runs) > 1 else read_checkpoint(locate(runs[0]))
    facts = {key: found.facts[key] for key in ("model", "config", "vocabulary", "specification", "search")}
    facts["search"] = {**facts["search"], "not_first": list(NOT_FIRST)}
    if confidence_file is not None:
        facts["confidence"] = json.loads(confidence_file.read_text())
    write_checkpoint(out, Checkpoint(quantize_int8(found.tensors), facts))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def score(options: argparse.Namespace) -> None:
    """The shipped files on the official-val frames: scores, those without change, the confidence, some sentences."""
    from hoca.captioning import load
    from hoca.checkpoint import SHIPPED
    from hoca.data import msrvtt_dinov2
    from hoca.metrics import Evaluator

    examples = {each.video.id: each for each in msrvtt_dinov2.videos(options.source, msrvtt_dinov2.DinoOptions())}
    examples = {id: each for id, each in examples.items() if each.video.split == "test"}
    source = {id: each.video.attributes["url"] for id, each in examples.items()}
    references = {id: each.video.captions for id, each in examples.items()}
    evaluator, rows, first = Evaluator(references), [], {}
    for name, without in (("default", ""), ("default", "change"), ("hoca-u", "")):
        said = described(load(SHIPPED.with_stem(name)), examples, without)
        found = evaluator.evaluate({id: caption.text for id, caption in said.items()})
        each = {id: 100 * video["CIDEr"] for id, video in found.per_video.items()}
        first = first or {"said": said, "each": each}
        shares = {
            modality: fmean(float(caption.explanation.shares[modality].mean()) for caption in said.values())
            for modality in PICTURE_AND_CHANGE
            if modality != without
        }
        rows.append(
            {"model": f"{name} without {without}" if without else name, "videos": SHOWN, "count": len(each)}
            | {metric: round(100 * found.corpus[metric], 2) for metric in SCORES}
            | {
                "CIDEr's standard error": round(statistics.stdev(each.values()) / len(each) ** 0.5, 1),
                "CIDEr - default": interval({id: each[id] - first["each"][id] for id in each}, source) if rows else "",
                "different": len({caption.text for caption in said.values()}),
                "words": round(fmean(len(caption.words) for caption in said.values()), 1),
                **{f"β of {modality}": f"{shares.get(modality, 0):.2f}" for modality in PICTURE_AND_CHANGE},
            }
        )
    write(options.results / "default-model.csv", rows)
    human = median_of_people(references)
    good = {id: first["each"][id] > 100 * human[id] for id in references}
    signals = {
        LOGPROB: [caption.logprob / (len(caption.words) + 1) for caption in first["said"].values()],
        "the shipped confidence": [caption.confidence for caption in first["said"].values()],
    }
    ordered = [np.array([of[id] for id in first["said"]]) for of in (good, first["each"])]
    write_confidence(options, [measured(name, SHOWN, np.array(p), *ordered) for name, p in signals.items()])
    lines = ["| video | sentence | confidence | CIDEr | as good as a person's |", "|---|---|---|---|---|"]
    for id in sorted(references, key=lambda id: int(id.removeprefix("video")))[:EXAMPLES]:
        caption, verdict = first["said"][id], "yes" if good[id] else "no"
        cells = (id, caption.text, f"{100 * caption.confidence:.0f} %", f"{first['each'][id]:.0f}", verdict)
        lines.append(f"| {' | '.join(cells)} |")
    fill(options.card, {"scores": markdown(rows), "examples": "\n".join(lines)})


def described(captioner: Any, examples: Mapping[str, Any], without: str) -> dict[str, Any]:
    """The caption of each video, of the features that the captioner takes, less one modality."""
    from hoca.features import Extracted

    absent = {without: "left out"} if without else {}
    kept = [name for name in captioner.model.config.modalities if name != without]
    videos = [Extracted({name: each.features[name] for name in kept}, absent, 0.0) for each in examples.values()]
    return dict(zip(examples, captioner.describe_all(videos), strict=True))


def replaced(
    options: argparse.Namespace, variants: list[str], folds: list[str], seeds: Iterable[int]
) -> argparse.Namespace:
    return argparse.Namespace(**vars(options) | {"variants": variants, "folds": folds, "seeds": list(seeds)})


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(path)


def fill(page: Path, parts: dict[str, str]) -> None:
    """Put each text between its `<!-- name -->` and `<!-- /name -->`."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not (mark and end):
            sys.exit(f"{page} has no place for {name}")
        text = f"{before}{mark}{part}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "one", "ensembles", "table", "confidence", "ship", "score"))
    parser.add_argument("paths", nargs="*", help="ship: one run or several, and the file to write")
    parser.add_argument("--source", type=Path, help="folder of the research data")
    parser.add_argument("--data", default=str(ROOT / "data" / "msrvtt-dinov2"), help="folders to prepare begin with it")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "default-choice")
    parser.add_argument("--words", default="", help="another file of word vectors than the recipe's")
    parser.add_argument("--variants", nargs="*", default=COMPARED, choices=list(VARIANTS))
    parser.add_argument("--folds", nargs="*", default=[str(fold) for fold in range(FOLDS)])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--confidence", type=Path, help="ship: a confidence.json for the file")
    parser.add_argument("--card", type=Path, default=ROOT / "docs" / "model-card.md", help="the page to fill in")
    options = parser.parse_args()
    if options.command == "one":
        variant, fold, seed = options.paths
        train_one(options, runs_of(replaced(options, [variant], [fold], [int(seed)]))[0])
    elif options.command == "ship":
        *runs, out = map(Path, options.paths)
        ship(runs, out, options.confidence)
    else:
        commands = {"train": train, "ensembles": ensembles, "table": table, "confidence": confidence, "score": score}
        commands[options.command](options)


if __name__ == "__main__":
    main()
