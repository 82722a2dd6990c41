"""Training and scores: train, evaluate, score, models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from hoca.cli.common import Beam, Device, Json, Threads, app, print_json, print_scores
from hoca.cli.help import MODELS, KeyCommand
from hoca.files import escaped
from hoca.options import Key


class TrainCommand(KeyCommand):
    def keys(self) -> Iterable[Key]:
        from hoca.training.keys import keys, model_keys

        return [key for listed in (*keys().values(), *model_keys().values()) for key in listed]

    def keys_as_text(self) -> str:
        from hoca.training.keys import as_text

        return as_text()


@app.command(cls=TrainCommand, rich_help_panel=MODELS)
def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A name that `hoca recipes list` prints, or a YAML file.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keys to change.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the recipe's folder.")] = False,
    threads: Threads = None,
) -> None:
    """Train a captioner as a recipe says.

    \b
    hoca train binding
    hoca train binding epochs=2 run=runs/short --resume
    """
    from hoca.training import read_recipe
    from hoca.training import train as run_training
    from hoca.training.report import evaluate_own

    asked = read_recipe(recipe, overrides or ())
    run = run_training(asked, resume=resume)
    if asked.data.videos is not None and (scores := evaluate_own(run)) is not None:
        print_scores(scores.corpus, as_json=False)


@app.command(rich_help_panel=MODELS)
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    split: Annotated[str, typer.Option(metavar="SPLIT", help="Which videos to caption.")] = "test",
    data: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Another dataset folder than the recipe's.")
    ] = None,
    modalities: Annotated[
        list[str] | None, typer.Option(metavar="MODALITY", help="Show the model these alone; give it once for each.")
    ] = None,
    beam: Beam = None,
    length_penalty: Annotated[
        float | None, typer.Option(metavar="POWER", help="Power of the length to divide log p by.")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the captions to this file too: .jsonl, .json or .csv.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Caption a split with a run's best checkpoint and score the sentences.

    \b
    hoca evaluate runs/binding
    hoca evaluate runs/binding --split validation --beam 1 --json
    """
    from hoca.training.report import evaluate as evaluate_run

    scores = evaluate_run(
        run, split, data=data, modalities=modalities, beam=beam, length_penalty=length_penalty, device=device, out=out
    )
    print_scores(scores.corpus, as_json)


@app.command(rich_help_panel=MODELS)
def score(
    references: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="COCO or MSR-VTT JSON, a dataset's captions.jsonl, CSV, or `id caption` lines."
        ),
    ],
    candidates: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The same kinds, one caption per video; what caption --json or evaluate wrote."
        ),
    ],
    split: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Of files that state splits, the one to score.")
    ] = None,
    per_video: Annotated[bool, typer.Option("--per-video", help="The scores of each video too.")] = False,
    as_json: Json = False,
) -> None:
    """Score captions as coco-caption does: BLEU, ROUGE-L, METEOR, CIDEr.

    \b
    hoca score --references captions.json --candidates mine.json
    hoca score --references data/msvd/captions.jsonl --split test --candidates said.jsonl --per-video
    """
    from hoca.metrics import score_files

    scores = score_files(references, candidates, split=split)
    if as_json and per_video:
        print_json({"corpus": scores.corpus, "per_video": scores.per_video})
        return
    if per_video:
        width = max(map(len, ("video", *scores.per_video)))
        print("  ".join([f"{'video':{width}}", *(f"{name:>7}" for name in scores.corpus)]))
        for id, row in scores.per_video.items():
            print("  ".join([f"{escaped(id):{width}}", *(f"{100 * row[name]:7.2f}" for name in scores.corpus)]))
        print()
    print_scores(scores.corpus, as_json)


@app.command(rich_help_panel=MODELS)
def models(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A shell pattern, such as 'l-*'.")] = "*",
) -> None:
    """List the models that recipes can name: what they are, who proposed them, parameters at the paper's size.

    A compared system has a class. A: made from official code. B: from code or notes of third parties. C: from the
    abstract and memory, so it is a system in that style.

    \b
    hoca models
    hoca models 'l-*'
    """
    from hoca.models.catalogue import catalogue

    for row in catalogue(pattern):
        source = "; ".join(filter(None, (row.source, row.fidelity)))
        print(f"{row.name:14} {row.parameters / 1e6:6.1f} M  {row.about} ({source})")
