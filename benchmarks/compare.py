"""All captioners and the HOCA variants on the same features, with the same settings, search and metrics.

    python benchmarks/compare.py --source DATA           # data, all runs (a GPU), the table and the page
    python benchmarks/compare.py pack --source DATA --data msvd      # the files that these data need -> carry/
    python benchmarks/compare.py train --source carry --data msvd --jobs 8 --limit-minutes 25 --table part.csv \\
        --done results/comparison-runs.csv results/clips-runs.csv    # some of the runs, on one of several machines
    python benchmarks/experiment.py merge results/comparison-runs.csv part.csv
    python benchmarks/compare.py table --source DATA     # -> results/comparison.csv, docs/comparison.md
    python benchmarks/compare.py train --list            # what is left, as far as settings are chosen

Every finished run is a row of results/comparison-runs.csv. Each system is tried with the same settings (learning rate ×
dropout) on seed and fold 0; validation CIDEr chooses. In this order: the first setting of every system, the others, the
other seeds and folds with the chosen one, then the reward, which begins from the checkpoint of the same seed and fold.
As soon as a system's settings are tried, the next of its runs may begin: no worker waits for the slowest system.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from experiment import (
    ROOT,
    SCORES,
    Key,
    Row,
    Run,
    arguments,
    carry_out,
    fill_in_meteor,
    in_rounds,
    last_of_each,
    read,
    read_said,
    rows_by_key,
    train_as_told,
    write,
)

from hoca.data import binding, msrvtt, msrvtt_dinov2, msvd, read_corpus
from hoca.files import replacing
from hoca.models import entry, names
from hoca.options import from_arguments
from hoca.progress import say
from hoca.threads import cores

RECIPE = ROOT / "src" / "hoca" / "recipes" / "compare.yaml"
PAGE = ROOT / "docs" / "comparison.md"
BASELINES = (
    *("sa-lstm", "recnet-global", "recnet-local", "cst", "scn", "mm-tgm", "tddf", "haca", "lstm-tsa", "dense-cap"),
    "hrl",
)
NINE = tuple(names("*hoca*"))
FIVE = ("hoca-u", "hoca-b", "l-hoca-b", "hoca-ub", "l-hoca-ub")  # those that differ with two modalities
XE, REWARD = "xe", "scst-loo"
REWARD_CHANGES = ("objective=scst-loo", "learning_rate=0.00005", "label_smoothing=0", "epochs=6", "patience=2")
CATEGORY = "category"
ANNOTATIONS = ("train_val_annotation.zip", "test_videodatainfo.json.zip", "category.txt")
CLIP_FILES = tuple(f"msrvtt/{name}" for name in (*ANNOTATIONS, "clip-features.npz"))
FILES = {
    "binding": (),
    "msvd": ("msvd/features.npz", "msvd/sents_lc_nopunc.zip"),
    "msrvtt-dinov2": (
        *CLIP_FILES,
        *(f"dinov2/{name}" for name in ("msrvtt-frames.npz", "msrvtt-frames.jsonl.gz", "clips.npz")),
        "splits/msrvtt-dev.txt",
    ),
    "msrvtt-clips": CLIP_FILES,
}
BLOCK = re.compile(r"(<!-- comparison on (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
Setting = tuple[float, float]  # learning rate, dropout


@dataclass(frozen=True)
class Data:
    kind: str  # as `hoca data prepare` names it
    variants: tuple[str, ...] = FIVE  # of HOCA
    changes: tuple[str, ...] = ()  # of the recipe
    rates: tuple[float, ...] = (0.001, 0.0003)
    dropouts: tuple[float, ...] = (0.5, 0.3)
    hidden: int = 512
    attention: int = 256
    seeds: int = 3
    folds: int = 1
    category: bool = False  # the decoder starts from the video's category; settings are those chosen without

    @property
    def name(self) -> str:
        return f"{self.kind}-{CATEGORY}" if self.category else self.kind

    @property
    def systems(self) -> tuple[str, ...]:
        return (*BASELINES, *self.variants)

    @property
    def settings(self) -> list[Setting]:
        return list(itertools.product(self.rates, self.dropouts))


SMALL = ("embedding=32", "encoder_dropout=0", "normalise=false", "min_count=1")  # words and things are few
FRAMES = Data("msrvtt-dinov2", changes=("modalities=[image,change]",))
DATASETS = {
    data.name: data
    for data in (
        Data(
            "binding",
            NINE,
            (*SMALL, "captions_per_video=2", "label_smoothing=0", "epochs=20", "patience=20"),
            rates=(0.003, 0.001),
            dropouts=(0.3, 0.1),
            hidden=64,
            attention=64,
            seeds=5,
        ),
        Data("msvd"),
        FRAMES,
        replace(FRAMES, category=True),
        Data("msrvtt-clips", NINE, ("batch_size=25",), seeds=1, folds=5),
    )
}


def own_options(system: str, hidden: int, attention: int) -> tuple[str, ...]:
    """What a system needs besides the recipe: its sizes in proportion to the common ones."""
    half = hidden // 2
    own = {
        "scn": (f"factors={hidden}",),
        "mm-tgm": (f"factors={hidden}",),
        "cst": (),
        "lstm-tsa": (f"decoder_hidden={hidden}", "attributes=500"),
        "dense-cap": ("lexicon=500",),
        "haca": (
            *(f"high_hidden={half}", f"global_hidden={half}", f"local_hidden={hidden}"),
            *(f"global_context={hidden}", f"local_context={half}"),
        ),
        "hrl": (f"worker_hidden={hidden}", f"manager_hidden={half}"),
    }
    without = ("scn", "mm-tgm", "cst", "lstm-tsa")
    return (f"hidden={hidden}", *(() if system in without else (f"attention={attention}",)), *own.get(system, ()))


def xe(options: argparse.Namespace, data: Data, system: str, setting: Setting, seed: int = 0, fold: int = 0) -> Run:
    words = [data.kind]
    if data.kind == "binding":
        words += options.sizes
    if data.folds > 1:
        words += [f"fold={fold}", f"folds={data.folds}"]
    folder = options.folder / "-".join([data.kind, *([str(fold)] if data.folds > 1 else [])])
    rate, dropout = setting
    changes = (
        *(f"model={system}", *own_options(system, data.hidden, data.attention), *data.changes),
        *(f"learning_rate={rate}", f"dropout={dropout}", *options.overrides),
    )
    return Run(
        XE,
        system,
        RECIPE,
        folder,
        " ".join([*words, *([CATEGORY] if data.category else [])]),
        last_of_each(changes),
        seed,
        fold,
        files=(f"category_vectors={_category_file(folder)}",) if data.category else (),
        kept=True,
    )


def reward(options: argparse.Namespace, first: Run, changes: Sequence[str] = REWARD_CHANGES) -> Run:
    """The run that goes on with a reward from the best checkpoint of the first one."""
    overrides = last_of_each((*first.overrides, *changes, *options.overrides))
    return replace(first, study=REWARD, overrides=overrides, files=(), after=first, kept=False)


def cells(options: argparse.Namespace) -> list[tuple[Data, str]]:
    """Every system on every dataset that is asked for."""
    return [
        (DATASETS[name], system)
        for name in options.data
        for system in DATASETS[name].systems
        if not options.systems or system in options.systems
    ]


def tried(options: argparse.Namespace, data: Data, system: str) -> dict[Setting, Run]:
    """The runs that decide on the setting of a system."""
    plain = replace(data, category=False)
    return {setting: xe(options, plain, system, setting) for setting in data.settings[: options.settings]}


def chosen(options: argparse.Namespace, data: Data, system: str, finished: Mapping[Key, Row]) -> Setting | None:
    """The setting with the best validation CIDEr, once all of them were tried."""
    runs = tried(options, data, system)
    if any(run.key not in finished for run in runs.values()):
        return None
    return max(runs, key=lambda setting: dev_score(finished[runs[setting].key]))


def tried_by_all(options: argparse.Namespace, data: Data, finished: Mapping[Key, Row]) -> argparse.Namespace:
    """With as many settings as every system of a dataset was tried with: choosing among more would favour some."""
    systems = [system for each, system in cells(options) if each == data]
    whole = [
        count
        for count in range(1, options.settings + 1)
        if all(run.key in finished for system in systems for run in list(tried(options, data, system).values())[:count])
    ]
    return argparse.Namespace(**vars(options) | {"settings": max(whole, default=1)})


def dev_score(row: Row) -> float:
    return max(float(value) for value in row["curve"].split())


def runs_known(options: argparse.Namespace, finished: Mapping[Key, Row]) -> list[Run]:
    """What to train, in this order: further seeds of a system once its setting is chosen, then rewards."""
    first = [
        list(tried(options, *cell).values())[number]
        for number in range(options.settings)
        for cell in cells(options)
        if not cell[0].category
    ]
    best = {cell: chosen(options, *cell, finished) for cell in cells(options)}
    runs = in_rounds(
        xe(options, data, system, setting, seed, fold)
        for (data, system), setting in best.items()
        if setting is not None
        for seed in range(options.first_seed, min(data.seeds, options.seeds))
        for fold in range(data.folds)
    )
    rewards = [reward(options, run) for run in runs if run.key in finished]
    return [*first, *(runs if XE in options.objectives else ()), *(rewards if REWARD in options.objectives else ())]


def train(options: argparse.Namespace) -> None:
    for data in (DATASETS[name] for name in (() if options.list else options.data)):
        for fold in range(data.folds):
            run = xe(options, data, data.systems[0], data.settings[0], fold=fold)
            prepare(run.dataset, run.data, options.source)
    train_as_told(partial(runs_known, options), options)


@cache
def prepare(dataset: str, folder: Path, source: Path) -> None:
    """Make a dataset folder, of what is in the words of a run."""
    kind, *words = dataset.split()
    given = [word for word in words if word != CATEGORY]
    if kind == "binding":
        binding.prepare(folder, from_arguments(binding.BindingOptions, given), workers=cores())
    elif kind == "msvd":
        msvd.prepare(source, folder, report=say)
    elif kind == "msrvtt-dinov2":
        msrvtt_dinov2.prepare(source, folder, from_arguments(msrvtt_dinov2.DinoOptions, given), report=say)
    else:
        msrvtt.prepare_clips(source, folder, from_arguments(msrvtt.ClipOptions, given), report=say)
    if CATEGORY in words:
        write_categories(folder)


def write_categories(folder: Path) -> None:
    """Vectors of the categories' names for the start state: every word has a direction of its own.

    The paper has GloVe vectors. The start state is a linear map of them, learned: for twenty categories it reaches the
    same states from any vectors that are independent.
    """
    names = read_corpus(folder / "captions.jsonl").categories
    words = sorted({word for name in names for word in re.split(r"[/\s]+", name) if word})
    np.savez(_category_file(folder), words=words, vectors=np.eye(len(words), dtype=np.float32))


def _category_file(folder: Path) -> Path:
    return folder / "category-vectors.npz"


def pack(options: argparse.Namespace) -> None:
    """Copy what the data need from the research data, as little as there is."""
    for name in sorted({name for data in options.data for name in FILES[DATASETS[data].kind]}):
        target = options.carry / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(options.source / name, target)
    size = sum(path.stat().st_size for path in options.carry.rglob("*") if path.is_file())
    print(f"{options.carry}: {size / 1e6:.1f} MB")


def table(options: argparse.Namespace) -> None:
    """A row for each finished run, with what was chosen; then the page."""
    fill_in_meteor(options.table, references(options))
    found = rows_by_key(*options.done, options.table)
    rows = []
    fair = {name: tried_by_all(options, DATASETS[name], found) for name in options.data}
    for data, system in cells(options):
        best = chosen(fair[data.name], data, system, found)
        for objective, setting, seed, fold in itertools.product(
            (XE, REWARD), data.settings, range(data.seeds), range(data.folds)
        ):
            run = xe(options, data, system, setting, seed, fold)
            row = found.get((run if objective == XE else reward(options, run)).key)
            if row is None:
                continue
            rows.append(
                {
                    "system": system,
                    "data": data.name,
                    "objective": objective,
                    "setting": f"learning_rate={setting[0]} dropout={setting[1]}",
                    "chosen": "yes" if setting == best else "",
                    "chosen among": fair[data.name].settings,
                    **{name: row[name] for name in ("seed", "fold", "commit", "device", "jobs")},
                    "parameters": row["weights"],
                    **{name: row[name] for name in ("epochs", "seconds_an_epoch", "captions_a_second")},
                    "dev CIDEr": dev_score(row),
                    **{name: row[name] for name in SCORES},
                }
            )
    write(options.out, rows)
    print(f"{options.out}: {len(rows)} runs")
    page(options)


def references(options: argparse.Namespace) -> dict[str, dict[str, Sequence[str]]]:
    """Of every dataset in the table: the captions of its test videos."""
    known: dict[str, dict[str, Sequence[str]]] = {}
    for key, name, said in read_said(options.table):
        if name == "test" and key[0] not in known:
            everything = _captions(key[0], options.source)
            known[key[0]] = {id: everything[id] for id in said}
    return known


@cache
def _captions(dataset: str, source: Path) -> dict[str, Sequence[str]]:
    kind, *words = dataset.split()
    if kind == "binding":
        alone = replace(
            from_arguments(binding.BindingOptions, words), train=0, validation=0
        )  # each clip has a seed of its own
        return {id: captions for id, _, _, captions in binding.clips(alone)}
    return {video.id: video.captions for video in (msvd if kind == "msvd" else msrvtt).read(source).videos}


def page(options: argparse.Namespace) -> None:
    text = fill(options.page.read_text(encoding="utf-8"), read(options.out))
    with replacing(options.page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(options.page)


def fill(text: str, rows: Sequence[Row]) -> str:
    """The page with the table of each dataset made anew; what was not measured is an empty cell."""
    return BLOCK.sub(lambda found: found[1] + markdown(DATASETS[found[2]], rows) + found[4], text)


def markdown(data: Data, rows: Sequence[Row]) -> str:
    mine = [row for row in rows if row["data"] == data.name and row["chosen"]]
    wanted = 2 * len(data.systems) * data.seeds * data.folds
    state = f"**Not measured yet**: 0 of {wanted} runs"
    if mine:
        among = mine[0]["chosen among"]
        how = f"each with the best of {among} settings" if among != "1" else "all with the same setting"
        state = f"{len(mine)} of {wanted} runs are finished, {how}"
    head = ["system", "class", "weights", "s/epoch", "captions/s"]
    head += [f"{objective} {name}" for objective in (XE, REWARD) for name in SCORES]
    lines = [head, ["---"] * len(head)]
    for system in data.systems:
        of_xe, of_reward = (
            [row for row in mine if (row["system"], row["objective"]) == (system, objective)]
            for objective in (XE, REWARD)
        )
        on_gpu = [row for row in of_xe if row["device"] != "CPU"]
        cost = [
            f"{float(of_xe[0]['parameters']) / 1e6:.1f} M" if of_xe else "",
            *(_mean(on_gpu, name, 1) for name in ("seconds_an_epoch", "captions_a_second")),
        ]
        scores = [_mean(runs, name, 100, spread=True) for runs in (of_xe, of_reward) for name in SCORES]
        known = entry(system)
        lines.append([f"`{system}`{'-style' * known.in_that_style}", known.fidelity, *cost, *scores])
    return f"{state}.\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _mean(rows: Sequence[Row], name: str, times: float, *, spread: bool = False) -> str:
    values = [times * float(row[name]) for row in rows if row[name]]
    if not values:
        return ""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if spread and len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "pack", "train", "table", "page"), default="all")
    parser.add_argument("--source", type=Path, default=ROOT / ".." / "shared" / "data", help="the research data")
    parser.add_argument("--data", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--systems", nargs="+", default=[], help="names of captioners; all by default")
    parser.add_argument("--objectives", nargs="+", choices=(XE, REWARD), default=[XE, REWARD])
    parser.add_argument("--settings", type=int, default=4, help="how many are tried of each system")
    parser.add_argument("--sizes", nargs="+", default=["train=6000", "validation=200", "test=1000"], help="of binding")
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "compare", help="of the data, made where absent")
    parser.add_argument("--carry", type=Path, default=ROOT / "carry", help="where `pack` copies to")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "comparison.csv")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments(parser, ROOT / "results" / "comparison-runs.csv")
    parser.set_defaults(done=[ROOT / "results" / "clips-runs.csv"])  # the HOCA variants on the other folds of the clips
    options = parser.parse_args()
    carry_out(options, pack=pack, train=train, table=table, page=page)


if __name__ == "__main__":
    main()
