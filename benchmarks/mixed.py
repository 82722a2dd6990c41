"""Cross-modal attention on real features: two clips are seen, one of them is heard, which one is told of?

    python benchmarks/mixed.py --source DATA             # data, 150 runs (a GPU), table and figure
    python benchmarks/mixed.py pack --source DATA        # the files of the clips with sound alone -> carry/msrvtt
    python benchmarks/mixed.py train --source carry/msrvtt --jobs 8 --limit-minutes 8 --table part.csv \\
        --done results/mixed-runs.csv                    # some of them, on one of several machines
    python benchmarks/experiment.py merge results/mixed-runs.csv part.csv
    python benchmarks/mixed.py table --source DATA       # -> results/mixed-clips.csv, docs/mixed-clips.png

Nine variants, and sound alone, over folds and seeds. Measured is how often the caption is nearer to the clip that is
heard than to the other one (CIDEr, METEOR; ties count half): chance is exactly a half, for the data hold every pair
with the sound of either. A finer measure besides: whose captions the model finds likelier, the heard clip's or the
other's. Both once more with the sound of a third clip, which must bring every model back to a half.
Intervals (95 %) are of a bootstrap over the sources of the clips: a mixed clip is drawn as often as both of its sources
are, and the runs of all seeds count as one model.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from experiment import (
    ROOT,
    SCORES,
    Key,
    Measured,
    Row,
    Run,
    arguments,
    beside,
    carry_out,
    fill_in_meteor,
    key_of,
    read,
    read_said,
    train_as_told,
    write,
)
from significance import bootstrap, draws

from hoca.data import Video, mixed_clips
from hoca.data.msrvtt import CLIP_SHAPES, clip_features
from hoca.data.official import find_file, read_arrays
from hoca.errors import UserError
from hoca.explain.drawing import new_figure, save
from hoca.metrics import Evaluator
from hoca.models import names
from hoca.options import from_arguments
from hoca.progress import say

if TYPE_CHECKING:
    from hoca.data import FolderDataset
    from hoca.models import CaptionModel

RECIPE = ROOT / "src" / "hoca" / "recipes" / "mixed-clips.yaml"
SOUND = "sound alone"
VARIANTS = {name: (f"model={name}",) for name in names("*hoca*")} | {SOUND: ("model=hoca-u", "modalities=[audio]")}
ANNOTATIONS = ("train_val_annotation.zip", "test_videodatainfo.json.zip", "category.txt")
RESAMPLES = 2000
MEASURES = ("CIDEr", "METEOR")
LIKELIER = "likelihood"
BATCH, WORDS = 32, 22  # videos at once; longer captions are cut


def runs(options: argparse.Namespace) -> list[Run]:
    return [
        Run(
            "mixed",
            variant,
            RECIPE,
            options.data.with_name(f"{options.data.name}-{fold}"),
            " ".join(["mixed-clips", f"fold={fold}", f"folds={options.folds}", *options.sizes]),
            (*changes, *options.overrides),
            seed,
            fold,
            measure="mixed:measure",
        )
        for seed in range(options.first_seed, options.seeds)
        for fold in range(options.folds)
        for variant, changes in VARIANTS.items()
        if not options.variants or variant in options.variants
    ]


def _options(dataset: str) -> mixed_clips.MixedOptions:
    return from_arguments(mixed_clips.MixedOptions, dataset.split()[1:])


def train(options: argparse.Namespace) -> None:
    train_as_told(
        runs(options),
        options,
        lambda run: mixed_clips.prepare(options.source, run.data, _options(run.dataset), report=say),
    )


def measure(folder: Path, model: CaptionModel, dataset: FolderDataset, said: dict[str, str]) -> Measured:
    """What the model says when it hears a third clip, and whose captions it finds likelier with either sound."""
    from hoca.generation import inference
    from hoca.training.recipe import read_run

    videos, search = dataset.videos("test"), read_run(folder).search
    donors, captions = mixed_clips.other_sounds(videos), {video.attributes["heard"]: video.captions for video in videos}
    shuffled: dict[str, str] = {}
    likelier = {"test": "", "shuffled": ""}
    for first in range(0, len(videos), BATCH):
        some = videos[first : first + BATCH]
        seen, heard = (
            dataset.padded(ids) for ids in ([video.id for video in some], [donors[video.id] for video in some])
        )
        with inference(model):
            for name, sound in (("test", seen), ("shuffled", heard)):
                features, lengths = (own | {"audio": other["audio"]} for own, other in zip(seen, sound, strict=True))
                memory = model.encode({m: x.to(next(model.parameters()).device) for m, x in features.items()}, lengths)
                clips = [[video.attributes["heard"] for video in some], [mixed_clips.other_of(video) for video in some]]
                own, other = (_nats(model, memory, [captions[clip] for clip in each]) for each in clips)
                likelier[name] += "".join("1" if a < b else "0" for a, b in zip(own, other, strict=True))
                if name == "shuffled":
                    found = search(model, memory).texts(model.vocabulary)
                    shuffled |= {video.id: texts[0] for video, texts in zip(some, found, strict=True)}
    return Measured(tables={"likelier": [likelier]}, said={"shuffled": shuffled})


def _nats(model: CaptionModel, memory: Any, captions: Sequence[Sequence[str]]) -> list[float]:
    """Of each video's captions, the loss per word."""
    import torch

    from hoca.training.objectives import word_losses

    pad, device = model.vocabulary.pad, next(model.parameters()).device
    encoded = [[model.vocabulary.encode(text)[:WORDS] for text in each] for each in captions]
    longest = max(len(words) for each in encoded for words in each)
    words = torch.tensor(
        [[words + [pad] * (longest - len(words)) for words in each] for each in encoded], device=device
    )  # [B, R, L + 1]
    logits = model.decode(memory, words[:, :, :-1], model.begin(memory, words.shape[1])).logits
    losses = word_losses(logits, words[:, :, 1:], pad).flatten(1).sum(1)  # [B]
    return (losses / (words[:, :, 1:] != pad).flatten(1).sum(1)).tolist()


@dataclass(frozen=True)
class Fold:
    """The test clips of a dataset, in order, and what is needed to judge captions of them."""

    videos: Sequence[Video]
    captions: dict[str, tuple[str, ...]]  # of each clip that is heard in one of them
    weights: np.ndarray  # [resamples, videos]: how often each one is drawn

    @classmethod
    def of(cls, source: Path, dataset: str, ids: Sequence[str]) -> Fold:
        videos = mixed_clips.mix(source, ids, _options(dataset)).split("test")
        sources = sorted({url for video in videos for url in video.attributes["sources"]})
        drawn = draws(len(sources), RESAMPLES)  # [resamples, sources]
        places = np.array([[sources.index(url) for url in video.attributes["sources"]] for video in videos])
        weights = (drawn[:, places[:, 0]] * drawn[:, places[:, 1]]).astype(np.float32)
        return cls(videos, {video.attributes["heard"]: video.captions for video in videos}, weights)


class Judge:
    """Whether captions are nearer to the clip that is heard; scores are kept, for many runs say the same."""

    def __init__(self, folds: dict[str, Fold]) -> None:
        self.folds = folds
        self.scores: dict[tuple[str, str, str, str], float] = {}  # measure, dataset, caption, clip → score

    def score(self, measure: str, dataset: str, said: Iterable[dict[str, str]]) -> None:
        """Score all pairs of a caption and a clip that are asked for, at once."""
        fold, wanted = self.folds[dataset], {}
        for captions in said:
            for video in fold.videos:
                for clip in (video.attributes["heard"], mixed_clips.other_of(video)):
                    wanted[captions[video.id], clip] = None
        wanted = {pair: None for pair in wanted if (measure, dataset, *pair) not in self.scores}
        if not wanted:
            return
        evaluator = Evaluator(
            {pair: fold.captions[pair[1]] for pair in wanted}, **(_frequencies(fold) if measure == "CIDEr" else {})
        )
        found = evaluator.evaluate({pair: pair[0] for pair in wanted}, (measure,)).per_video
        for pair, scores in found.items():
            self.scores[measure, dataset, *pair] = scores[measure]

    def nearer(self, measure: str, dataset: str, said: dict[str, str]) -> np.ndarray:
        """[videos]: 1 where the caption is nearer to the clip that is heard, 0 to the other, 1/2 to neither."""
        found = []
        for video in self.folds[dataset].videos:
            clips = video.attributes["heard"], mixed_clips.other_of(video)
            heard, other = (self.scores[measure, dataset, said[video.id], clip] for clip in clips)
            found.append(0.5 if heard == other else float(heard > other))
        return np.array(found)


def _frequencies(fold: Fold) -> dict[str, object]:
    """In how many of the fold's clips each run of one to four words occurs, whatever pairs are scored."""
    from collections import Counter

    from hoca.text.tokenizer import tokenize

    counts: Counter[tuple[str, ...]] = Counter()
    for captions in fold.captions.values():
        words = [tokenize(caption) for caption in captions]
        counts.update({tuple(each[i : i + n]) for each in words for n in range(1, 5) for i in range(len(each) - n + 1)})
    return {"document_frequencies": counts, "documents": len(fold.captions)}


def table(options: argparse.Namespace) -> None:
    ids = [id for id, clip, _ in clip_features(options.source) if "audio" in clip]
    rows = [row for row in read(options.table) if row["variant"] in VARIANTS]
    datasets = sorted({row["dataset"] for row in rows})
    folds = {dataset: Fold.of(options.source, dataset, ids) for dataset in datasets}
    fill_in_meteor(options.table, {name: {v.id: v.captions for v in fold.videos} for name, fold in folds.items()})
    rows = [row for row in read(options.table) if row["variant"] in VARIANTS]
    said: dict[tuple[Key, str], dict[str, str]] = {(key, name): each for key, name, each in read_said(options.table)}
    values = _values(rows, said, {key_of(row): row for row in read(beside(options.table, "likelier"))}, folds)
    weights = np.concatenate([folds[dataset].weights for dataset in datasets], axis=1)  # [resamples, videos]
    within = np.array([video.attributes["within"] for dataset in datasets for video in folds[dataset].videos])
    found: list[Row] = []
    for variant in VARIANTS:
        mine = [row for row in rows if row["variant"] == variant]
        if (variant, "CIDEr", "test") not in values:
            continue
        own = values[variant, "CIDEr", "test"]
        line: Row = {"variant": variant, "runs": len(mine)}
        for each in MEASURES:
            line[f"nearer by {each}"] = _interval(values[variant, each, "test"], weights)
        line["its captions likelier"] = _interval(values[variant, LIKELIER, "test"], weights)
        line["within a category"] = _interval(own[within], weights[:, within])
        line["across"] = _interval(own[~within], weights[:, ~within])
        line["with another sound"] = _interval(values[variant, "CIDEr", "shuffled"], weights)
        line["likelier with another sound"] = _interval(values[variant, LIKELIER, "shuffled"], weights)
        for base in ("hoca-u", SOUND):
            for each, label in (("CIDEr", "gain"), (LIKELIER, "likelier, gain")):
                if (base, each, "test") in values and base != variant:
                    gain = values[variant, each, "test"] - values[base, each, "test"]
                    line[f"{label} over {base}"] = _interval(gain, weights)
        line |= {name: f"{100 * fmean(float(row[name]) for row in mine):.1f}" for name in SCORES if mine[0][name]}
        found.append(line)
    if not found:
        raise UserError(f"{options.table}: no variant has a run of every fold: train more, or merge parts")
    columns = list(dict.fromkeys(name for line in found for name in line))
    write(options.results / "mixed-clips.csv", [{name: line.get(name, "") for name in columns} for line in found])
    gain_figure(values, weights, options.docs / "mixed-clips.png")
    print(options.results / "mixed-clips.csv")


def _values(
    rows: Sequence[Row],
    said: dict[tuple[Key, str], dict[str, str]],
    likelier: dict[Key, Row],
    folds: dict[str, Fold],
) -> dict[tuple[str, str, str], np.ndarray]:
    """Variant, measure, captions → in percent how often each video [of all folds] is told nearer, over the seeds.

    Variants that lack a run of some fold are left out.
    """
    judge = Judge(folds)
    for dataset in folds:
        for each in MEASURES:
            judge.score(each, dataset, [captions for (key, _), captions in said.items() if key[0] == dataset])
    values = {}
    for variant in VARIANTS:
        keys = {
            dataset: [key_of(row) for row in rows if (row["variant"], row["dataset"]) == (variant, dataset)]
            for dataset in folds
        }
        if not all(keys.values()):
            continue
        for each in MEASURES:
            for name in ("test", "shuffled"):
                parts = [
                    np.mean([judge.nearer(each, dataset, said[key, name]) for key in of_dataset], axis=0)
                    for dataset, of_dataset in keys.items()
                ]
                values[variant, each, name] = 100 * np.concatenate(parts)
        for name in ("test", "shuffled"):
            parts = [
                np.mean([np.array(list(likelier[key][name]), float) for key in of_dataset], axis=0)
                for of_dataset in keys.values()
            ]
            values[variant, LIKELIER, name] = 100 * np.concatenate(parts)
    return values


def _interval(values: np.ndarray, weights: np.ndarray) -> str:
    low, high = bootstrap(values, weights)
    return f"{values.mean():.1f} ({low:.1f} to {high:.1f})"


def gain_figure(values: dict[tuple[str, str, str], np.ndarray], weights: np.ndarray, path: Path) -> None:
    """How often the caption is nearer to the clip heard, with the clip's own sound and with another."""
    variants = list(dict.fromkeys(variant for variant, _, _ in values))
    figure = new_figure(7, 1.2 + 0.3 * len(variants))
    axis = figure.subplots()
    for name, colour, label in (("test", "#2b62d9", "its own sound"), ("shuffled", "#999999", "the sound of another")):
        means = np.array([values[variant, "CIDEr", name].mean() for variant in variants])
        ends = np.array([bootstrap(values[variant, "CIDEr", name], weights) for variant in variants])  # [variants, 2]
        spread = np.abs(ends - means[:, None]).T
        axis.errorbar(means, range(len(variants)), xerr=spread, fmt="o", capsize=3, color=colour, label=label)
    axis.axvline(50, color="black", linewidth=0.8, linestyle="--")
    axis.set_yticks(range(len(variants)), variants)
    axis.invert_yaxis()
    axis.set_xlabel("caption nearer to the clip that is heard, % (CIDEr)")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", frameon=False, ncols=2, fontsize=9)
    save(figure, path, dpi=120)


def pack(source: Path, out: Path) -> None:
    """The clips with sound and the annotations, as published, in a folder that is small enough to travel."""
    out.mkdir(parents=True, exist_ok=True)
    files = {name: find_file(source, name, "msrvtt") for name in (*ANNOTATIONS, "clip-features.npz")}
    for name, path in files.items():
        if path is None:
            raise UserError(f"no {name} in {source}: give the folder of the research data")
        if name in ANNOTATIONS:
            shutil.copyfile(path, out / name)
    shapes: dict[str, tuple[int | None, ...]] = {"ids": (None,), "audio_length": (None,)}
    for name, (steps, width) in CLIP_SHAPES.items():
        shapes |= {name: (None, steps, width), f"{name}_scale": (width,)}
    arrays = read_arrays(files["clip-features.npz"], shapes)
    heard = arrays["audio_length"] > 0
    kept = {name: values if name.endswith("_scale") else values[heard] for name, values in arrays.items()}
    np.savez_compressed(out / "clip-features.npz", **kept)
    print(f"{out}: {sum(path.stat().st_size for path in out.iterdir()) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "pack", "train", "table"), default="all")
    parser.add_argument("--source", type=Path, default=ROOT.parent / "shared" / "data", help="the research data")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "mixed", help="-FOLD is added; made where absent")
    parser.add_argument("--sizes", nargs="*", default=[], help="KEY=VALUE: options of the dataset")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--variants", nargs="*", default=[], choices=list(VARIANTS), help="all by default")
    parser.add_argument("--out", type=Path, default=ROOT / "carry" / "msrvtt", help="pack: the folder to write")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    arguments(parser, ROOT / "results" / "mixed-runs.csv")
    options = parser.parse_args()
    carry_out(options, pack=lambda options: pack(options.source, options.out), train=train, table=table)


if __name__ == "__main__":
    main()
