"""The 732 MSR-VTT clips with pictures, motion and sound: the paper's nine variants, ranks and category, by folds.

    python benchmarks/clips.py --source DATA             # data, 80 runs (a GPU), tables and figures
    python benchmarks/clips.py pack --source DATA        # the files that the data need -> carry/
    python benchmarks/clips.py train --source carry --jobs 18 --limit-minutes 4 --table part.csv \\
        --done results/c*-runs.csv                       # some of the runs, on one of several machines
    python benchmarks/experiment.py merge results/clips-runs.csv part.csv
    python benchmarks/clips.py table --source DATA       # -> results/clips*.csv, docs/*-clips.png
    python benchmarks/clips.py train --list              # what is left

Every finished run is a row of results/clips-runs.csv. Data and settings are those of compare.py, whose runs count too
(`--done`). Each clip is tested once: five folds by source, validated on the next fold. Studies:

    table        nine variants
    ranks        l-hoca-ubt of rank 2 to 16 (rank 1 is the table's)
    category     the decoder starts from the category (without it: the table's)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from compare import CATEGORY, DATASETS, pack, prepare, references, xe
from experiment import (
    ROOT,
    SCORES,
    Key,
    Row,
    Run,
    arguments,
    carry_out,
    fill_in_meteor,
    key_of,
    last_of_each,
    read,
    read_said,
    rows_of,
    train_as_told,
    write,
)
from significance import bootstrap, draws
from summaries import by_variant, curves_figure, differences, pairs_of, summarise

from hoca.data import msrvtt
from hoca.explain import rank_figure
from hoca.metrics import Evaluator
from hoca.models import names
from hoca.progress import say

DATA = DATASETS["msrvtt-clips"]
SETTING = DATA.settings[0]  # that all captioners are tried with first
MODELS = names("*hoca*")
RANKS = (2, 4, 8, 16)
STARTED = ("hoca-u", "l-hoca-ubt", "hoca-ubt")  # from the category
STUDIES = ("table", "ranks", "category")


def variants(study: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name of the row, model, and what it changes besides."""
    if study == "table":
        yield from ((model, model, ()) for model in MODELS)
    elif study == "ranks":
        yield from ((f"l-hoca-ubt rank {rank}", "l-hoca-ubt", (f"rank={rank}",)) for rank in RANKS)
    else:
        yield from ((f"{model} {CATEGORY}", model, ()) for model in STARTED)


def runs(studies: Sequence[str], options: argparse.Namespace) -> list[Run]:
    found = []
    for study in studies:
        data = replace(DATA, category=study == "category", folds=options.folds)
        for name, model, changes in variants(study):
            for seed in range(options.first_seed, options.seeds):
                for fold in range(data.folds):
                    run = xe(options, data, model, SETTING, seed, fold)
                    overrides = last_of_each((*run.overrides, *changes))
                    found.append(replace(run, study=study, variant=name, overrides=overrides, kept=False))
    return [run for run in found if not options.variants or run.variant in options.variants]


def train(options: argparse.Namespace) -> None:
    def make(run: Run) -> None:
        """With the categories' vectors in any case: the folder is that of the runs with and without them."""
        prepare(f"{run.dataset.removesuffix(f' {CATEGORY}')} {CATEGORY}", run.data, options.source)

    train_as_told(runs(options.study, options), options, make)


def table(options: argparse.Namespace) -> None:
    """Means and tests, and the figures, of all runs that are finished."""
    rows = read(options.table)
    fill_in_meteor(options.table, captions := references(options))
    options.first_seed, options.seeds = 0, 1 + max((int(row["seed"]) for row in rows), default=0)
    tables = (options.table, *options.done)
    found = rows_of(runs(STUDIES, options), *tables)
    if left_out := {key_of(row) for row in rows} - {key_of(row) for row in found}:
        say(f"{len(left_out)} rows of {options.table} are of other --variants or --overrides")
    if not found:
        say(f"{options.table} has no run of this study: not measured yet")
        return
    results, docs = options.results, options.docs
    write(results / "clips.csv", summarise(found, (*SCORES, "nats"), "folds"))
    write(results / "clips-tests.csv", tests(found, scores(tables, captions), _sources(options.source)))
    if any(row["study"] == "table" for row in found):
        curves_figure(found, MODELS, docs / "curves-clips.png")
    if {"l-hoca-ubt", *(f"l-hoca-ubt rank {rank}" for rank in RANKS)} <= {row["variant"] for row in found}:
        rank_figure(results / "clips.csv", docs / "rank-clips.png")
    print(f"{results}/clips*.csv and {docs}/*-clips.png, from {len(found)} runs")


def scores(tables: Sequence[Path], captions: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[Key, dict[str, float]]:
    """Run → CIDEr of each test clip."""
    evaluators = {dataset: Evaluator(each) for dataset, each in captions.items()}
    return {
        key: {id: each["CIDEr"] for id, each in evaluators[key[0]].evaluate(said, ("CIDEr",)).per_video.items()}
        for key, name, said in read_said(*tables)
        if name == "test" and key[0] in evaluators
    }


def _sources(source: Path) -> dict[str, str]:
    return {video.id: video.attributes["url"] for video in msrvtt.read(source).videos}


def tests(rows: Sequence[Row], cider: Mapping[Key, Mapping[str, float]], sources: Mapping[str, str]) -> list[Row]:
    """Every variant against unary attention, and those with a rank or category against the same without.

    Paired by folds (t test), and by clips: an interval of the difference in CIDEr, of a bootstrap over sources.
    """
    variants = by_variant(rows)
    wanted = [(name, "hoca-u") for name in variants] + [(name, name.split()[0]) for name in variants]
    found: list[Row] = []
    for name, against in dict.fromkeys(pair for pair in wanted if pair[0] != pair[1]):
        pairs = pairs_of(variants[name], variants.get(against, ()))
        if not pairs:
            continue
        line: Row = {"variant": name, "against": against, "pairs": len(pairs)}
        line |= differences(pairs, ("CIDEr", "nats"))
        gains: dict[str, list[float]] = {}
        for ours, theirs in pairs:
            for id, score in cider[key_of(ours)].items():
                gains.setdefault(id, []).append(100 * (score - cider[key_of(theirs)][id]))
        low, high = bootstrap(np.array([np.mean(each) for each in gains.values()]), _weights(list(gains), sources))
        found.append(line | {"CIDEr, interval over sources": f"{low:.1f} to {high:.1f}"})
    return found


def _weights(ids: Sequence[str], sources: Mapping[str, str]) -> np.ndarray:
    """How often each clip is drawn where its source is [resamples, clips]."""
    places = {url: place for place, url in enumerate(dict.fromkeys(sources[id] for id in ids))}
    return draws(len(places))[:, [places[sources[id]] for id in ids]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "pack", "train", "table"), default="all")
    parser.add_argument("--source", type=Path, default=ROOT / ".." / "shared" / "data", help="the research data")
    parser.add_argument("--folds", type=int, default=DATA.folds)
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=STUDIES)
    parser.add_argument("--variants", nargs="+", default=[], help="names of rows; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "compare", help="of the data, made where absent")
    parser.add_argument("--carry", type=Path, default=ROOT / "carry", help="where `pack` copies to")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    arguments(parser, ROOT / "results" / "clips-runs.csv")
    parser.set_defaults(seeds=1, data=[DATA.name], done=[ROOT / "results" / "comparison-runs.csv"])
    options = parser.parse_args()
    carry_out(options, pack=pack, train=train, table=table)


if __name__ == "__main__":
    main()
