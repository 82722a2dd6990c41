"""The first evidence: the paper's variants on the built-in dataset, several seeds each.

    python benchmarks/ablation.py                  # make the data, train 42 runs, score them, write tables and plots
    python benchmarks/ablation.py --stage train    # train only (on a GPU machine); finished runs are kept
    python benchmarks/ablation.py --stage table    # score the captions that the runs left

Tables: results/ablation-binding.csv (mean and standard deviation over seeds), results/ablation-binding-runs.csv (each
run). Plots: docs/ablation-binding.png, docs/rank-binding.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

from experiment import ROOT, SCORES, Row, Run, summary, train, write

from hoca.data import FolderDataset, binding
from hoca.explain import rank_figure
from hoca.explain.drawing import new_figure, save
from hoca.metrics import Evaluator
from hoca.models import names

ATTRIBUTES = ("colour", "kind", "motion", "sound")
RANKS = (2, 4, 8)
MERGES = ("logits", "mixture")
MODELS = names("*hoca*")


def variants() -> dict[str, tuple[str, ...]]:
    """Name of the row → what it changes in the recipe."""
    rows: dict[str, tuple[str, ...]] = {name: (f"model={name}",) for name in MODELS}
    rows |= {f"l-hoca-ubt rank {rank}": ("model=l-hoca-ubt", f"rank={rank}") for rank in RANKS}
    return rows | {f"l-hoca-ubt merge {merge}": ("model=l-hoca-ubt", f"merge={merge}") for merge in MERGES}


def runs(options: argparse.Namespace) -> list[Run]:
    return [
        Run(
            name,
            seed,
            options.runs / f"{name.replace(' ', '-')}-{seed}",
            ROOT / "recipes" / "binding.yaml",
            (*changes, f"data={options.data}", *options.overrides),
        )
        for seed in range(options.seeds)
        for name, changes in variants().items()
    ]


def table(options: argparse.Namespace) -> None:
    """Score what the runs said, and write the tables and plots."""
    videos = FolderDataset(options.data).videos("test")
    evaluator = Evaluator({video.id: video.captions for video in videos})
    attributes = {video.id: video.attributes for video in videos}
    rows = []
    for run in runs(options):
        said = run.said()
        scores = evaluator.evaluate(said, SCORES).corpus | binding.attribute_accuracy(said, attributes)
        rows.append({"variant": run.name, "seed": run.seed, **scores})
    write(options.results / "ablation-binding-runs.csv", rows)
    means = summary(rows, (*SCORES, *ATTRIBUTES))
    write(options.results / "ablation-binding.csv", means)
    accuracy_figure(rows, options.docs / "ablation-binding.png")
    rank_figure(options.results / "ablation-binding.csv", options.docs / "rank-binding.png")


def accuracy_figure(rows: list[Row], path: Path) -> None:
    """Bars: means. Dots: seeds, which lie in two heaps rather than around the mean."""
    figure = new_figure(9, 3.4)
    axis = figure.subplots()
    for place, attribute in enumerate(ATTRIBUTES):
        x = [number + (place - 1.5) * 0.2 for number in range(len(MODELS))]
        seeds = [[100 * row[attribute] for row in rows if row["variant"] == name] for name in MODELS]
        axis.bar(x, [fmean(values) for values in seeds], 0.18, label=attribute, alpha=0.75)
        dots = [(at, value) for at, values in zip(x, seeds, strict=True) for value in values]
        axis.plot(*zip(*dots, strict=True), "k.", markersize=3)
    axis.set_xticks(range(len(MODELS)), MODELS)
    axis.set_ylabel("right word, % of clips")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", frameon=False, ncols=4, fontsize=9)
    save(figure, path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=("all", "train", "table"), default="all")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "binding", help="made when absent")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "ablation")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE: keys of recipes/binding.yaml to change")
    options = parser.parse_args()
    if not (options.data / "captions.jsonl").is_file():
        binding.prepare(options.data)
    if options.stage != "table":
        train(runs(options), options.jobs)
    if options.stage != "train":
        table(options)


if __name__ == "__main__":
    main()
