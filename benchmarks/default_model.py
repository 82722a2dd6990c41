"""The model that hoca ships: write its file, compare its variants, fill in its card.

    hoca data prepare default --source DATA --out data/default
    hoca train recipes/default-1-pictures.yaml
    for seed in 0 1; do hoca train recipes/default-2-videos.yaml seed=$seed run=runs/default-2-$seed; done
    python benchmarks/default_model.py mean runs/default-2.safetensors runs/default-2-* --modalities image audio
    hoca train recipes/default-3-reward.yaml
    python benchmarks/default_model.py mean runs/default-3.safetensors runs/default-3 runs/default-2.safetensors{,,}
    for seed in 0 1 2; do hoca train recipes/default-4-beam.yaml seed=$seed run=runs/default-4-$seed; done
    python benchmarks/default_model.py mean runs/default.safetensors runs/default-3.safetensors runs/default-4-*
    python benchmarks/default_model.py detect runs/default-5.safetensors runs/default.safetensors
    python benchmarks/default_model.py ship runs/default-5.safetensors
    python benchmarks/default_model.py score               -> results/default-model-shipped.csv, docs/model-card.md

    for fold in 0 1 2; do hoca data prepare default --source DATA --out data/default-$fold fold=$fold; done
    python benchmarks/default_model.py compare --jobs 8    (on a GPU)
    python benchmarks/default_model.py table --conditions 'GPU, versions'    -> results/default-model.csv

`compare` trains every variant on the clips alone, once per fold: run n of all variants shares the seed and the clips
that are set aside, so that differences are paired.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from experiment import ROOT, SCORES, Row, Run, summary, train, write

from hoca.checkpoint import (
    SHIPPED,
    Checkpoint,
    load_model,
    locate,
    model_facts,
    quantize_int8,
    read_checkpoint,
    write_checkpoint,
)
from hoca.data import FolderDataset
from hoca.models.hoca import HocaConfig
from hoca.training.detector import fit

RECIPE = ROOT / "recipes" / "default-compare.yaml"
SUBSETS = {"image": "[image]", "image+motion": "[image,motion]", "image+audio": "[image,audio]"}
DETECTOR, EPOCHS = ("image", "audio"), {"all": 3, "videos": 10}  # modalities and training of the word detector
CHOICE = {"beam": 8, "detector_weight": 0.15}  # how the model searches that has it
EXAMPLES = 10

VARIANTS: dict[str, tuple[str, ...]] = {
    **{
        name: (f"model={name}",)
        for name in ("hoca-u", "hoca-b", "l-hoca-b", "hoca-t", "l-hoca-t", "hoca-ub", "l-hoca-ub", "hoca-ubt")
    },
    "l-hoca-ubt": (),
    **{f"rank {rank}": (f"rank={rank}",) for rank in (2, 4, 8)},
    **{f"merge {merge}": (f"merge={merge}",) for merge in ("logits", "mixture")},
    **{f"{name} alone": (f"modalities={listed}",) for name, listed in SUBSETS.items()},
}


def mean(out: Path, given: Sequence[Path], modalities: Sequence[str]) -> None:
    """The mean of the weights of runs that began alike, as a checkpoint; of some modalities, if they are named.

    What a checkpoint says besides its weights, such as how to search, is the first one's.
    """
    found = [read_checkpoint(locate(run)) for run in given]
    tensors = {
        key: torch.stack([checkpoint.tensors[key].float() for checkpoint in found]).mean(0) for key in found[0].tensors
    }
    write_checkpoint(out, _kept(Checkpoint(tensors, found[0].facts), modalities))
    print(out)


def detect(out: Path, run: Path, data: Path) -> None:
    """The model with a detector of words, fitted on photos and videos and then on videos alone, and a wider search."""
    found = load_model(run)
    model, search = found.model, replace(found.search, **CHOICE)
    model.config = replace(model.config, word_detector=DETECTOR)
    parts = [(FolderDataset(data / name, modalities=DETECTOR).preload(), epochs) for name, epochs in EPOCHS.items()]
    model.detector = fit(model.config, model.vocabulary, parts)
    weights = {f"model.{key}": value for key, value in model.state_dict().items()}
    write_checkpoint(out, Checkpoint(weights, model_facts(model, found.specification, search)))
    print(out)


def ship(run: Path, modalities: Sequence[str], out: Path) -> None:
    """A model in bytes, with what is needed to caption and nothing of where it was trained."""
    found = _kept(read_checkpoint(locate(run)), modalities)
    facts = {key: found.facts[key] for key in ("model", "config", "vocabulary", "specification", "search")}
    write_checkpoint(out, Checkpoint(quantize_int8(found.tensors), facts))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def _kept(found: Checkpoint, modalities: Sequence[str]) -> Checkpoint:
    return keep(found, modalities) if modalities else found


def keep(found: Checkpoint, modalities: Sequence[str]) -> Checkpoint:
    """The paper's captioner of a checkpoint without its other modalities and the groups that they belong to.

    It says what the whole model says of videos that lack them.
    """
    config, specification = HocaConfig.from_json(found.facts["config"]), found.facts["specification"]
    kept = [m for m in config.modalities if m in modalities]
    groups = [group for group in config.groups if set(group) <= set(kept)]
    weights = {}
    for key, value in found.part("model").items():
        part, *rest = key.split(".")
        if any(m in rest for m in config.modalities if m not in kept):
            continue
        if part == "attention" and rest[0] == "scorers":
            group = config.groups[int(rest[1])]
            if group not in groups:
                continue
            key = ".".join([part, "scorers", str(groups.index(group)), *rest[2:]])
        elif part in ("attention", "merge"):
            of_modality = config.groups_of(next(m for m in kept if m in rest))
            slots = [place for place, group in enumerate(of_modality) if group in groups]
            value = value.unflatten(0, (len(of_modality), -1))[slots].flatten(0, 1)
        elif key == "output.narrow.weight":
            hidden, *contexts = value.split([config.hidden, *[2 * config.hidden] * len(config.modalities)], dim=1)
            value = torch.cat([hidden, *(x for m, x in zip(config.modalities, contexts, strict=True) if m in kept)], 1)
        weights[f"model.{key}"] = value
    widths, steps, made = ({m: each[m] for m in kept} for each in (config.modalities, config.max_steps, specification))
    smaller = replace(config, modalities=widths, max_steps=steps, groups=tuple(groups))
    return Checkpoint(weights, found.facts | {"config": smaller.to_json(), "specification": made})


def runs(options: argparse.Namespace) -> list[Run]:
    return [
        Run(
            name,
            fold,
            options.runs / f"{name.replace(' ', '-')}-{fold}",
            RECIPE,
            (
                f"data={options.data}-{fold}/clips",
                f"vocabulary={options.data}-{fold}/vocabulary.json",
                *changes,
                *options.overrides,
            ),
        )
        for fold in range(options.folds)
        for name, changes in VARIANTS.items()
    ]


def compare(options: argparse.Namespace) -> None:
    """Train all variants on all folds, `jobs` at a time."""
    train(runs(options), options.jobs)


def table(options: argparse.Namespace) -> None:
    """Mean and standard deviation over the folds, and of the paired differences from `hoca-u`."""
    rows: list[Row] = []
    for fold in range(options.folds):
        evaluator = _evaluator(Path(f"{options.data}-{fold}") / "clips", "test")
        for run in runs(options):
            if run.seed == fold and run.captions.is_file():
                nats = json.loads((run.folder / "nats-test.json").read_text()) / 100  # a summary is in percent
                scores = evaluator.evaluate(run.said(), SCORES).corpus
                rows.append({"variant": run.name, "seed": fold, **scores, "nats per word": nats})
    compared = ("CIDEr", "nats per word")
    base = {row["seed"]: row for row in rows if row["variant"] == "hoca-u"}
    for row in rows:
        row |= {f"{name} - hoca-u": row[name] - base[row["seed"]][name] for name in compared}
    columns = (*SCORES, *compared[1:], *(f"{name} - hoca-u" for name in compared))
    note = {"recipe": RECIPE.name, "conditions": options.conditions}
    found = summary(rows, columns)
    write(options.results / "default-model.csv", [row | note for row in found])
    short = [
        {
            "variant": row["variant"],
            **{name: f"{row[name]:.{_digits(name)}f} ± {row[f'{name} sd']:.{_digits(name)}f}" for name in columns},
        }
        for row in found
    ]
    fill(options.card, {"comparison": _markdown(short)})


def _digits(name: str) -> int:
    return 3 if name.startswith("nats") else 1


def score(options: argparse.Namespace) -> None:
    """The shipped model on the official-val frames and the clips set aside, with all and with some modalities."""
    from hoca.captioning import load
    from hoca.data import evaluation_batches
    from hoca.distributed import Distributed
    from hoca.evaluation import caption_batches

    captioner, rows, said = load(), [], {}
    modalities = list(captioner.model.config.modalities)
    for split, shown in (("validation", "image"), *(("test", shown) for shown in _subsets(modalities))):
        dataset = FolderDataset(Path(options.data) / "videos", modalities=shown.split("+"))
        alone = Distributed(0, 1, captioner.device)
        captions = caption_batches(captioner.model, evaluation_batches(dataset, split), captioner.search, alone)
        found = _evaluator(Path(options.data) / "videos", split).evaluate(captions, SCORES)
        each = [100 * video["CIDEr"] for video in found.per_video.values()]
        said[split, shown] = captions
        rows.append(
            {
                "videos": {"validation": "official-val frames", "test": "clips set aside"}[split],
                "count": len(captions),
                "shown": shown,
            }
            | {name: round(100 * value, 2) for name, value in found.corpus.items()}
            | {
                "CIDEr's standard error": round(statistics.stdev(each) / len(each) ** 0.5, 1),
                "different sentences": len(set(captions.values())),
                "words": round(sum(len(t.split()) for t in captions.values()) / len(captions), 1),
            }
        )
    write(options.results / options.table, rows)
    whole = said["test", "+".join(modalities)]
    chosen = sorted(whole, key=lambda id: int(id.removeprefix("video")))[:EXAMPLES]
    examples = "\n".join(f"| {id} | {whole[id]} |" for id in chosen)
    fill(options.card, {"scores": _markdown(rows), "examples": examples})


def _subsets(modalities: list[str]) -> list[str]:
    """The first modality alone, with each of the others, and all: `image`, `image+audio`, …"""
    first, *others = modalities
    pairs = [f"{first}+{other}" for other in others]
    return list(dict.fromkeys([first, *pairs, "+".join(modalities)]))


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


def _markdown(rows: list[Row]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _evaluator(folder: Path, split: str):  # type: ignore[no-untyped-def]
    from hoca.data import read_corpus
    from hoca.metrics import Evaluator

    return Evaluator({video.id: video.captions for video in read_corpus(folder / "captions.jsonl").split(split)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("mean", "detect", "ship", "score", "compare", "table"))
    parser.add_argument(
        "paths", nargs="*", type=Path, help="mean, detect: a file to write and runs; ship: a run, and a file to write"
    )
    parser.add_argument("--modalities", nargs="*", default=[], help="mean, ship: those to keep; all by default")
    parser.add_argument("--data", default=str(ROOT / "data" / "default"), help="folder of `hoca data prepare default`")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--table", default="default-model-shipped.csv", help="score: the file in results/")
    parser.add_argument("--card", type=Path, default=ROOT / "docs" / "model-card.md", help="the page to fill in")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "default-compare")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes that train at a time")
    parser.add_argument("--conditions", default="", help="hardware and versions, a column of the table")
    parser.add_argument("--overrides", nargs="*", default=[], help="KEY=VALUE: keys of the recipe to change")
    options = parser.parse_args()
    if options.command == "mean":
        mean(options.paths[0], options.paths[1:], options.modalities)
    elif options.command == "detect":
        detect(*options.paths, Path(options.data))
    elif options.command == "ship":
        ship(options.paths[0], options.modalities, *(options.paths[1:] or [SHIPPED]))
    else:
        {"score": score, "compare": compare, "table": table}[options.command](options)


if __name__ == "__main__":
    main()
