"""Models on a dataset with real features, several seeds each: mean and standard deviation of the four scores.

    hoca data prepare msvd --source MSVD --out data/msvd
    python benchmarks/compare.py recipes/msvd-fast.yaml hoca-u l-hoca-ub --out results/msvd-vgg.csv
    hoca data prepare msrvtt-clips --source MSRVTT --out data/msrvtt-clips
    python benchmarks/compare.py recipes/msrvtt-clips.yaml hoca-u l-hoca-ubt --out results/msrvtt-clips.csv

The runs themselves are rows of runs/OUT-runs.csv; the same command continues where it stopped. `--stage train` writes
these alone, `--stage table` the means of those that are there; `--conditions` says where the runs were trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiment import ROOT, SCORES, Run, fill_in_meteor, rows_of, summary, train, write

from hoca.data import read_corpus
from hoca.training import read_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("models", nargs="+", help="names; KEY=VALUE arguments change the recipe")
    parser.add_argument("--out", type=Path, required=True, help="the table")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="folder of the runs and their table")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--stage", choices=("all", "train", "table"), default="all")
    parser.add_argument("--conditions", default="", help="hardware and versions, a column of the table")
    options = parser.parse_args()
    changes = tuple(each for each in options.models if "=" in each)
    data = Path(read_recipe(options.recipe, changes).data.folder)
    runs = [
        Run("compare", model, options.recipe, data, data.name, (f"model={model}", *changes), seed)
        for seed in range(options.seeds)
        for model in options.models
        if "=" not in model
    ]
    table = options.runs / f"{options.out.stem}-runs.csv"
    if options.stage != "table" and train(runs, table, jobs=options.jobs, folder=options.runs / "experiments"):
        raise SystemExit("some runs failed")
    if options.stage != "train":
        references = read_corpus(data / "captions.jsonl").references("test")
        fill_in_meteor(table, {data.name: references})
        note = {"videos": len(references), "recipe": options.recipe.name, "conditions": options.conditions}
        write(options.out, [row | note for row in summary(rows_of(table, runs), SCORES)])
        print(options.out)


if __name__ == "__main__":
    main()
