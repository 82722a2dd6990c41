"""The paper's claims on the built-in dataset: nine variants, pairs, ranks, merges, and how hard it may become.

    python benchmarks/ablation.py                        # data, all runs (hundreds: a GPU), tables and figures
    python benchmarks/ablation.py train --study table --jobs 8 --limit-minutes 8 --table part.csv \\
        --done results/binding-runs.csv                  # some of them, on one of several machines
    python benchmarks/experiment.py merge results/binding-runs.csv part.csv
    python benchmarks/ablation.py table                  # tables and figures of the runs that are finished
    python benchmarks/ablation.py train --list           # what is left

Every finished run is a row of results/binding-runs.csv. Data are made where they are absent, from a seed, without any
codec. Studies:

    table        nine variants
    ranks        l-hoca-ubt of rank 2 to 16 (rank 1 is the table's)
    pairs        l-hoca-ub with one pair of modalities in place of three
    merges       the other ways to merge the orders; shared: one projection per modality
    difficulty   distractors, overlap, noise and silent clips, for unary, binary, ternary and all orders together
    probe        why a variant lags: rate, warm-up, first values, width, merge
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from attention_truth import table as attention_table
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
from significance import bootstrap, t_interval
from summaries import by_variant, curves_figure, differences, pairs_of, summarise

from hoca.data import binding
from hoca.explain import rank_figure
from hoca.explain.drawing import new_figure, save
from hoca.models import names
from hoca.options import from_arguments
from hoca.progress import say
from hoca.threads import cores

RECIPE = ROOT / "src" / "hoca" / "recipes" / "binding.yaml"
SIZES = ("train=6000", "validation=200", "test=1000")
LENGTH = ("epochs=30",)  # to the end of the schedule: a binding that is found late would be missed otherwise
ATTRIBUTES = ("colour", "kind", "motion", "sound")
COLUMNS = (*SCORES, *ATTRIBUTES, "all")
MODELS = names("*hoca*")
RANKS = (2, 4, 8, 16)
MERGES = ("logits", "mixture")
PAIRS = {"F+M": "[image,motion]", "F+S": "[image,audio]", "M+S": "[motion,audio]"}
ORDERS = ("hoca-u", "l-hoca-b", "l-hoca-t", "l-hoca-ubt")  # unary, binary, ternary, all
DIFFICULTY = {
    "distractors": (2, 3, 4),
    "overlap": (0.45, 0.9),
    "noise": (0.08, 0.15),
    "silent": (0.3, 0.6),
}
LAGGING = ("hoca-b", "l-hoca-t")
# At the start, scores differ between steps by 0.02 to 0.07 in exact binary attention, by 0.002 in low-rank binary and
# by less than 0.0005 in low-rank ternary attention: the product of three small numbers, on which gradients are small.
PROBES = (
    *("learning_rate=0.001", "learning_rate=0.006", "warmup=720", "schedule=constant"),
    *("initial_scale=0.25", "initial_scale=4", "initial_scale=16", "attention=16", "attention=256"),
    *("merge=logits", "merge=mixture", "epochs=60"),
)
STUDIES = ("table", "ranks", "pairs", "merges", "difficulty", "probe")


def variants(study: str) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Name of the row, what it changes in the recipe, and in the dataset."""
    if study == "table":
        for model in MODELS:
            yield model, (f"model={model}",), ()
    elif study == "ranks":
        for rank in RANKS:
            yield f"l-hoca-ubt rank {rank}", ("model=l-hoca-ubt", f"rank={rank}"), ()
    elif study == "pairs":
        for pair, group in PAIRS.items():
            yield f"l-hoca-ub {pair}", ("model=l-hoca-ub", f"groups=[[image],[motion],[audio],{group}]"), ()
    elif study == "merges":
        for merge in MERGES:
            yield f"l-hoca-ubt merge {merge}", ("model=l-hoca-ubt", f"merge={merge}"), ()
        yield "l-hoca-ubt shared projections", ("model=l-hoca-ubt", "share_projections=true"), ()
    elif study == "difficulty":
        for name, values in DIFFICULTY.items():
            for value in values:
                for model in ORDERS:
                    yield f"{model} {name} {value}", (f"model={model}",), (f"{name}={value}",)
    elif study == "probe":
        for model in LAGGING:
            for change in PROBES:
                if not (change.startswith("merge") and model == "l-hoca-t"):  # one group: nothing to merge
                    yield f"{model} {change.replace('=', ' ')}", (f"model={model}", change), ()


def runs(studies: Sequence[str], options: argparse.Namespace) -> list[Run]:
    return [
        Run(
            study,
            name,
            RECIPE,
            options.data.with_name("-".join([options.data.name, *harder]).replace("=", "-")),
            " ".join(["binding", *options.sizes, *harder]),
            last_of_each((*LENGTH, *options.overrides, *changes)),
            seed,
            measure="attention_truth:measure",
        )
        for seed in range(options.first_seed, options.seeds)
        for study in studies
        for name, changes, harder in variants(study)
        if not options.variants or name in options.variants
    ]


def train(options: argparse.Namespace) -> None:
    train_as_told(
        runs(options.study, options),
        options,
        lambda run: binding.prepare(run.data, _options(run.dataset), workers=cores()),
    )


def _options(dataset: str) -> binding.BindingOptions:
    return from_arguments(binding.BindingOptions, dataset.split()[1:])


@cache
def _test_clips(dataset: str) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
    """Captions and attributes of the test clips, which need no folder: they are drawn anew."""
    alone = replace(_options(dataset), train=0, validation=0)  # each clip has a seed of its own
    clips = [(id, scene, captions) for id, _, scene, captions in binding.clips(alone)]
    return {id: captions for id, _, captions in clips}, {id: scene.attributes for id, scene, _ in clips}


def table(options: argparse.Namespace) -> None:
    """Tables of means and tests, and the figures, of all runs that are finished."""
    rows = read(options.table)
    fill_in_meteor(options.table, {name: _test_clips(name)[0] for name in {row["dataset"] for row in rows}})
    options.first_seed, options.seeds = 0, 1 + max((int(row["seed"]) for row in rows), default=0)
    found = rows_of(runs(STUDIES, options), options.table)
    if len(found) < len(rows):
        say(f"{len(rows) - len(found)} rows of {options.table} are of other --sizes, --variants or --overrides")
    rows = sorted(found, key=lambda row: STUDIES.index(row["study"]))
    shown = [row for row in rows if row["study"] in ("table", "ranks", "pairs", "merges")]
    results, docs = options.results, options.docs
    if shown:
        summary = summarise(shown, COLUMNS)
        write(results / "ablation-binding.csv", summary)
        write(results / "ablation-binding-tests.csv", tests(shown, _right_clips(options.table)))
        accuracy_figure(shown, docs / "ablation-binding.png")
        curves_figure(shown, MODELS, docs / "curves-binding.png")
        if any(row["study"] == "ranks" for row in shown):
            rank_figure(results / "ablation-binding.csv", docs / "rank-binding.png")
        attention_table(options.table, results / "attention-truth.csv", {key_of(row) for row in shown})
    if any(row["study"] == "difficulty" for row in rows):
        harder = [row for row in rows if row["study"] == "difficulty" or row["variant"] in ORDERS]
        write(results / "ablation-binding-difficulty.csv", summarise(harder, COLUMNS))
        difficulty_figure(harder, docs / "difficulty-binding.png")
    if any(row["study"] == "probe" for row in rows):
        probed = [row for row in rows if row["study"] == "probe" or row["variant"] in LAGGING]
        write(results / "ablation-binding-probe.csv", summarise(probed, COLUMNS))
    print(f"{results}/ablation-binding*.csv and {docs}/*-binding.png, from {len(rows)} runs")


def tests(rows: Sequence[Row], right: dict[Key, np.ndarray]) -> list[Row]:
    """Every variant against unary attention and against the best one, paired by seeds and by clips."""
    variants = by_variant(rows)
    best = max(variants, key=lambda name: fmean(float(row["all"]) for row in variants[name]))
    found = []
    for against in ("hoca-u", best):
        for variant, mine in variants.items():
            pairs = pairs_of(mine, variants.get(against, ()))
            if variant == against or not pairs:
                continue
            line: Row = {"variant": variant, "against": against, "pairs": len(pairs)}
            line |= differences(pairs, ("CIDEr", "colour", "motion", "all"))
            if all(key_of(row) in right for pair in pairs for row in pair):
                clips = np.mean([right[key_of(a)] - right[key_of(b)] for a, b in pairs], axis=0)  # [clips]
                low, high = bootstrap(100 * clips)
                line["all, interval over clips"] = f"{low:.1f} to {high:.1f}"
            found.append(line)
    return found


def _right_clips(path: Path) -> dict[Key, np.ndarray]:
    """Run → whether each test clip has all words right."""
    found = {}
    for key, name, said in read_said(path):
        if name == "test":
            right = binding.right_words(said, _test_clips(key[0])[1])
            found[key] = np.array([float(all(of_clip.values())) for of_clip in right.values()])
    return found


def accuracy_figure(rows: Sequence[Row], path: Path) -> None:
    """Bars: means, with their 95 % intervals. Dots: the seeds themselves."""
    figure = new_figure(9, 3.4)
    axis = figure.subplots()
    variants = {name: mine for name, mine in by_variant(rows).items() if name in MODELS}
    for place, attribute in enumerate(ATTRIBUTES):
        x = [number + (place - 1.5) * 0.2 for number in range(len(variants))]
        seeds = [[100 * float(row[attribute]) for row in mine if row[attribute]] for mine in variants.values()]
        spread = [np.nan_to_num(t_interval(values)) for values in seeds]
        axis.bar(x, [fmean(values) for values in seeds], 0.18, yerr=spread, capsize=2, label=attribute, alpha=0.75)
        dots = [(at, value) for at, values in zip(x, seeds, strict=True) for value in values]
        axis.plot(*zip(*dots, strict=True), "k.", markersize=3)
    axis.set_xticks(range(len(variants)), list(variants))
    axis.set_ylim(0, 105)
    _finish(axis, "right word, % of clips")
    figure.legend(loc="outside upper center", frameon=False, ncols=4, fontsize=9)
    save(figure, path, dpi=120)


def difficulty_figure(rows: Sequence[Row], path: Path) -> None:
    """All words right, by each kind of difficulty."""
    figure = new_figure(11, 3.0)
    plain = binding.BindingOptions()
    for axis, (name, values) in zip(figure.subplots(1, len(DIFFICULTY), sharey=True), DIFFICULTY.items(), strict=True):
        at = [getattr(plain, name), *values]
        for model in ORDERS:
            points = []
            for value in at:
                wanted = model if value == getattr(plain, name) else f"{model} {name} {value}"
                seeds = [100 * float(row["all"]) for row in rows if row["variant"] == wanted]
                if seeds:
                    points.append((value, fmean(seeds), np.nan_to_num(t_interval(seeds))))
            if points:
                x, y, spread = zip(*points, strict=True)
                axis.errorbar(x, y, spread, marker="o", markersize=4, capsize=2, label=model)
        axis.set_xlabel(name)
        axis.set_xticks(at)
        _finish(axis, "all words right, % of clips" if name == "distractors" else "")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    save(figure, path, dpi=120)


def _finish(axis: Any, label: str) -> None:
    axis.set_ylabel(label)
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "train", "table"), default="all")
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=STUDIES)
    parser.add_argument("--variants", nargs="+", default=[], help="names of rows; all by default")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "binding-6000", help="made where absent")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="KEY=VALUE: options of the dataset")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    arguments(parser, ROOT / "results" / "binding-runs.csv")
    options = parser.parse_args()
    carry_out(options, train=train, table=table)


if __name__ == "__main__":
    main()
