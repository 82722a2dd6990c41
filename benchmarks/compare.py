"""Models on a dataset with real features, several seeds each: mean and standard deviation of the four scores.

    hoca data prepare msvd --source MSVD --out data/msvd
    python benchmarks/compare.py recipes/msvd-fast.yaml hoca-u l-hoca-ub --out results/msvd-vgg.csv
    hoca data prepare msrvtt-clips --source MSRVTT --out data/msrvtt-clips
    python benchmarks/compare.py recipes/msrvtt-clips.yaml hoca-u l-hoca-ubt --out results/msrvtt-clips.csv

`--stage train` and `--stage table` as in ablation.py; `--conditions` says where the runs were trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiment import ROOT, SCORES, Run, summary, train, write

from hoca.data import read_corpus
from hoca.metrics import Evaluator
from hoca.training import read_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("models", nargs="+", help="names; KEY=VALUE arguments change the recipe")
    parser.add_argument("--out", type=Path, required=True, help="the table")
    parser.add_argument("--runs", type=Path, help="runs/NAME of the table by default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--stage", choices=("all", "train", "table"), default="all")
    parser.add_argument("--conditions", default="", help="hardware and versions, a column of the table")
    options = parser.parse_args()
    folder = options.runs or ROOT / "runs" / options.out.stem
    changes = tuple(each for each in options.models if "=" in each)
    runs = [
        Run(model, seed, folder / f"{model}-{seed}", options.recipe, (f"model={model}", *changes))
        for seed in range(options.seeds)
        for model in options.models
        if "=" not in model
    ]
    if options.stage != "table":
        train(runs, options.jobs)
    if options.stage != "train":
        videos = read_corpus(Path(read_recipe(options.recipe, changes).data.folder) / "captions.jsonl").split("test")
        evaluator = Evaluator({video.id: video.captions for video in videos})
        rows = [
            {"variant": run.name, "seed": run.seed, **evaluator.evaluate(run.said(), SCORES).corpus} for run in runs
        ]
        note = {"videos": len(videos), "recipe": options.recipe.name, "conditions": options.conditions}
        write(options.out, [row | note for row in summary(rows, SCORES)])


if __name__ == "__main__":
    main()
