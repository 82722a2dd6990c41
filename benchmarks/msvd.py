"""MSVD: what word vectors, weighted captions and rewards give, one after the other.

    python benchmarks/msvd.py --source DATA              # data, 33 runs (a GPU), the table
    python benchmarks/msvd.py pack --source DATA         # the files that the data need, and word vectors -> carry/
    python benchmarks/msvd.py train --source carry --jobs 15 --limit-minutes 4 --table part.csv \\
        --done results/msvd-runs.csv                     # some of the runs, on one of several machines
    python benchmarks/experiment.py merge results/msvd-runs.csv part.csv
    python benchmarks/msvd.py table --source DATA        # -> results/msvd.csv
    python benchmarks/msvd.py train --list               # what is left; rewards once the runs before them are finished

Every finished run is a row of results/msvd-runs.csv. Data and settings are those of compare.py; the schedule is fixed
and the last weights are kept, so that no epoch is chosen. Steps, of which l-hoca-ub has all, the others the last three:

    xe                 cross-entropy (eq. 24)
    xe + vectors       word vectors to begin with
    wxe + vectors      captions that others of the same video agree with count more
    beam-reward        from the weights of wxe + vectors, as the recipe `default` goes on
    scst-loo           from the same weights, as compare.py goes on

Steps are chosen by what validation says of the mean over the seeds: nats per word, and CIDEr in beam search.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from compare import DATASETS, RECIPE, REWARD_CHANGES, pack, prepare, references, reward, xe
from experiment import (
    ROOT,
    SCORES,
    Measured,
    Row,
    Run,
    arguments,
    carry_out,
    fill_in_meteor,
    in_rounds,
    last_of_each,
    nats_per_word,
    rows_of,
    train_as_told,
    write,
)
from readme_tables import cell
from summaries import summarise

from hoca import assets
from hoca.data import Vocabulary, load_vectors, msvd
from hoca.progress import say
from hoca.training import read_recipe

if TYPE_CHECKING:
    from hoca.data import FolderDataset
    from hoca.models import CaptionModel

DATA = DATASETS["msvd"]
SETTING = (0.001, 0.5)  # learning rate, dropout
SYSTEMS = ("l-hoca-ub", "hoca-u", "hoca-ub")  # the first has every step
VECTORS = "spacy-md-vectors"
LENGTH = ("epochs=8",)
WORDS = {"xe": (), "xe + vectors": (), "wxe + vectors": ("objective=wxe",)}  # step → what it changes
LAST = "wxe + vectors"
REWARDS = {
    "beam-reward": (
        *("objective=beam-reward", "samples=5", "captions_per_video=5", "epochs=5", "learning_rate=0.0001"),
        *("label_smoothing=0", "dropout=0.2", "encoder_dropout=0.2"),
    ),
    "scst-loo": REWARD_CHANGES,
}
CIDER, LOSS = "validation CIDEr", "validation nats"


def runs(options: argparse.Namespace) -> list[Run]:
    """In the order of training: all on words, then the rewards."""
    found = []
    for system in options.systems:
        for seed in range(options.first_seed, options.seeds):
            for step, changes in WORDS.items():
                if system == SYSTEMS[0] or step == LAST:
                    found.append(on_words(options, system, step, changes, seed))
    rewards = [
        replace(go_on, study=step, variant=f"{first.variant.split()[0]} {step}", overrides=to_the_end(go_on.overrides))
        for first in found
        if first.kept
        for step, changes in REWARDS.items()
        for go_on in [reward(options, first, changes)]
    ]
    return [*in_rounds(found), *in_rounds(rewards)]


def on_words(options: argparse.Namespace, system: str, step: str, changes: Sequence[str], seed: int) -> Run:
    """Whether it begins with word vectors is said with the dataset; where their file is, is no part of the run."""
    run = xe(options, DATA, system, SETTING, seed)
    overrides = to_the_end((*LENGTH, *run.overrides, *changes))
    run = replace(run, study=step, variant=f"{system} {step}", overrides=overrides, measure="msvd:measure")
    run = replace(run, kept=step == LAST)
    if not step.endswith("vectors"):
        return run
    packed = words_file(options.source)
    files = (f"word_vectors={packed if packed.is_file() else VECTORS}",)
    return replace(run, dataset=f"{run.dataset} {VECTORS}", files=files)


def to_the_end(overrides: Iterable[str]) -> tuple[str, ...]:
    """Validated once, after the last epoch, whose weights are kept."""
    epochs = [each.partition("=")[2] for each in overrides if each.startswith("epochs=")][-1]
    return last_of_each((*overrides, f"validate_every={epochs}"))


def train(options: argparse.Namespace) -> None:
    train_as_told(
        lambda finished: [run for run in runs(options) if run.after is None or run.after.key in finished],
        options,
        lambda run: prepare(DATA.kind, run.data, options.source),
    )


def measure(folder: Path, model: CaptionModel, dataset: FolderDataset, said: dict[str, str]) -> Measured:
    """What validation says of the weights that were kept, in the search that is reported."""
    from hoca.distributed import Distributed
    from hoca.evaluation import caption_split, score
    from hoca.training.recipe import read_run

    dist = Distributed(0, 1, next(model.parameters()).device)
    captions = caption_split(model, dataset, "validation", read_run(folder).search, dist)
    cider = score(dataset.corpus.references("validation"), captions, ("CIDEr",)).corpus["CIDEr"]
    nats = nats_per_word(model, dataset, "validation")
    return Measured({LOSS: round(nats, 5), CIDER: round(cider, 5)}, said={"validation": captions})


def words_file(folder: Path) -> Path:
    return folder / "msvd" / "word-vectors.npz"


def pack_words(source: Path, carry: Path) -> None:
    """The vectors of the words of the training captions, as the runs would find them among all."""
    captions = msvd.read(source).captions("train")
    words = Vocabulary.build(captions, read_recipe(RECIPE).data.min_count).tokens
    vectors, found = load_vectors(assets.path(VECTORS), words)
    kept = [word for word, there in zip(words, found.tolist(), strict=True) if there]
    target = words_file(carry)
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, words=kept, vectors=vectors[found].numpy())


def pack_all(options: argparse.Namespace) -> None:
    pack_words(options.source, options.carry)
    pack(options)


def table(options: argparse.Namespace) -> None:
    """A line for each system and step, beside what was asked for."""
    fill_in_meteor(options.table, references(options))
    rows = rows_of(runs(options), options.table)
    if not rows:
        say(f"{options.table} has no run of this study: not measured yet")
        return
    write(options.results / "msvd.csv", lines(rows))
    print(f"{options.results}/msvd.csv, from {len(rows)} runs")


def lines(rows: Sequence[Row]) -> list[Row]:
    """Mean ± half the 95 % interval over the seeds, and which line validation chooses."""
    columns = (*SCORES, "nats", LOSS, CIDER)
    summary = summarise(rows, columns)
    best = {
        "nats": min(summary, key=lambda line: line[LOSS])["variant"],
        "CIDEr": max(summary, key=lambda line: line[CIDER])["variant"],
    }
    return [
        {
            "variant": line["variant"],
            "seeds": line["seeds"],
            **{column: cell({name: str(value) for name, value in line.items()}, column) for column in columns},
            "chosen by": ", ".join(by for by, variant in best.items() if variant == line["variant"]),
        }
        for line in summary
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "pack", "train", "table"), default="all")
    parser.add_argument("--source", type=Path, default=ROOT / ".." / "shared" / "data", help="the research data")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "compare", help="of the data, made where absent")
    parser.add_argument("--carry", type=Path, default=ROOT / "carry", help="where `pack` copies to")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    arguments(parser, ROOT / "results" / "msvd-runs.csv")
    parser.set_defaults(seeds=3, data=[DATA.name])
    options = parser.parse_args()
    carry_out(options, pack=pack_all, train=train, table=table)


if __name__ == "__main__":
    main()
