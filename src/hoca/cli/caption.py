"""Videos to sentences: caption, explain, serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoca.cli.common import Beam, Category, Device, Limit, ModelOrDefault, Threads, app, importing_torch
from hoca.cli.help import VIDEOS
from hoca.errors import UserError
from hoca.files import escaped
from hoca.options import from_arguments
from hoca.progress import console, say

if TYPE_CHECKING:
    from hoca.cli.rows import Style
    from hoca.cli.sentences import Job
    from hoca.media import Decoders


Every = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="For long videos: a sentence for every so many seconds.")
]
Scenes = Annotated[bool, typer.Option("--scenes", help="For long videos: a sentence for each scene.")]
Start = Annotated[str | None, typer.Option(metavar="TIME", help="Where to begin: seconds, 34:05 or 1:02:03.")]
End = Annotated[str | None, typer.Option(metavar="TIME", help="Where to end.")]


@app.command(rich_help_panel=VIDEOS)
def caption(
    videos: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIDEO",
            help="Video files, folders, patterns such as 'clips/*.mp4', - for standard input; with --features, ids.",
        ),
    ] = None,
    model: ModelOrDefault = "default",
    beam: Beam = None,
    every: Every = None,
    scenes: Scenes = False,
    start: Start = None,
    end: End = None,
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="text, json, csv, or for segments srt or vtt.")
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this file; the same command resumes what was interrupted."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an HTML file that shows what each word looked at.")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="STORE", help="A feature store whose videos to caption, for a model of own features."),
    ] = None,
    category: Category = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Mark sentences with `?` whose confidence is below this, 0.2 by default."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Videos whose words are looked for at once.")] = 8,
    device: Device = "auto",
    threads: Threads = None,
    limit: Limit = None,
) -> None:
    """Say what happens in each video, or in each segment of a long one.

    \b
    hoca caption clip.mp4
    hoca caption film.mp4 --every 10 --format srt --out film.srt
    """
    from hoca import media
    from hoca.cli.inputs import inputs
    from hoca.cli.rows import FORMATS, SUBTITLES
    from hoca.cli.writing import caption_files, caption_stored
    from hoca.errors import nearest

    if as_json:
        format = "json"
    if format not in FORMATS:
        raise UserError(f"--format {format} is unknown: {nearest(format, FORMATS)}")
    cut = _cut(every, scenes, start, end)
    in_segments = every is not None or scenes
    if format in SUBTITLES and not in_segments:
        raise UserError(f"--format {format} needs segments: add --every 10 or --scenes")
    if features is None and not videos:
        raise UserError("no video is given: hoca caption clip.mp4")
    if features is not None and (in_segments or start or end or report):
        raise UserError("--features captions whole videos: leave out --every, --scenes, --start, --end and --report")
    for file in (out, report):
        if file is not None and file.is_dir():
            raise UserError(f"{file} is a folder: give the name of a file to write")
    limits = from_arguments(media.DecodeLimits, limit)
    explained = report is not None or format == "json"  # JSON has the views
    if features is not None:
        job = _job(model, device, beam, category, explain=explained)
        _check_marks(job, format, min_confidence)
        _end(job, caption_stored(job, features, videos or [], format, _style(min_confidence), out))
        return
    with inputs(videos or [], limits.bytes) as files:
        if len(files) != 1 and (report or format in SUBTITLES):
            option = "--report" if report else f"--format {format}"
            raise UserError(f"{option} is for one video, {len(files)} were given: give one, or leave {option} out")
        with media.Decoders(workers=1, limits=limits).start() as decoders:  # it gets ready while torch is imported
            options = {"hints": format == "text", "batch_size": batch_size, "explain": explained}
            job = _job(model, device, beam, category, decoders=decoders, **options, **cut)
            style = _style(min_confidence, in_segments)
            _check_marks(job, format, min_confidence)
            try:
                caption_files(job, model, files, format, style, out, report)
            except KeyboardInterrupt:
                if job.partial is not None:
                    say(f"what is done is in {job.partial.path}: the same command resumes it")
                raise
        _end(job, len(files))


def _style(min_confidence: float | None, in_segments: bool = False) -> Style:
    from hoca.captioning import UNSURE
    from hoca.cli.rows import Style

    return Style(False, UNSURE if min_confidence is None else min_confidence, in_segments)


def _check_marks(job: Job, format: str, min_confidence: float | None) -> None:
    """Say so where --min-confidence was given and marks nothing."""
    if min_confidence is None:
        return
    if format != "text":
        say(f"--min-confidence marks sentences in text: --format {format} has no marks")
    elif job.captioner.confidence is None:
        say("--min-confidence marks nothing: the model was not calibrated, so it gives no confidence")
    elif job.search.beam == 1:
        say("--min-confidence marks nothing: a greedy search (--beam 1) gives no confidence")


def _end(job: Job, count: int) -> None:
    if job.failed:
        raise typer.Exit(2 if job.failed == count else 1)


def _cut(every: float | None, scenes: bool, start: str | None, end: str | None) -> dict[str, Any]:
    """What of a video, and in which segments, as a `Job` takes it."""
    from hoca.media.subtitles import parse_time

    if every is not None and scenes:
        raise UserError("--every and --scenes are two ways to cut: give one of them")
    if every is not None:
        from hoca.captioning.segments import check  # imports torch, which takes longer than a worker's start

        check(every, False)
    begins = 0.0 if start is None else parse_time(start, "--start")
    return {
        **{"every": every, "scenes": scenes, "start": begins},
        "end": None if end is None else parse_time(end, "--end"),
    }


def _job(
    model: str,
    device: str,
    beam: int | None,
    category: str | None,
    decoders: Decoders | None = None,
    **options: Any,
) -> Job:
    from hoca.cli.sentences import Job

    if console.is_terminal:
        say(f"loading the model {escaped(model)} …")
    with importing_torch():
        from hoca.captioning import load

        captioner = load(model, device)
    captioner.category(category)  # one that the model does not know is told once
    if decoders is not None:
        captioner.extractor.decoders = decoders
    search = replace(captioner.search, beam=beam) if beam else captioner.search
    return Job(captioner, search, category, **options)


@app.command(rich_help_panel=VIDEOS)
def explain(
    video: Annotated[Path, typer.Argument(metavar="VIDEO", help="A video file.")],
    model: ModelOrDefault = "default",
    out: Annotated[Path | None, typer.Option(help="Where to write the report, one HTML file.")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="Another model, shown beside the first; `hoca-u` is shipped.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Where to write a figure: .png, .pdf or .svg.")] = None,
    every: Every = None,
    scenes: Scenes = False,
    start: Start = None,
    end: End = None,
    beam: Beam = None,
    category: Category = None,
    device: Device = "auto",
    threads: Threads = None,
    limit: Limit = None,
) -> None:
    """Show which modality and which moments each word looked at.

    \b
    hoca explain clip.mp4 --out report.html
    hoca explain clip.mp4 --compare hoca-u --out report.html --figure attention.pdf
    """
    from hoca import media

    with importing_torch():
        from hoca.explain import attention_figure, write_report
        from hoca.explain import explain as explain_video
        from hoca.explain.drawing import check_format

    if out is None and figure is None:
        raise UserError("nowhere to write to: give --out report.html, --figure figure.pdf or both")
    if figure is not None:
        check_format(figure)
    if every is not None or scenes or start or end:
        if compare or figure:
            raise UserError("--compare and --figure are for a whole clip: leave out --every, --scenes, --start, --end")
        options: dict[str, Any] = {
            "every": every,
            "scenes": scenes,
            "start": start,
            "end": end,
            "beam": beam,
            "category": category,
        }
        caption([str(video)], model, report=out, device=device, threads=threads, limit=limit, **options)
        return
    limits = from_arguments(media.DecodeLimits, limit)
    wanted: dict[str, Any] = {"beam": beam, "category": category, "limits": limits, "device": device}
    explained = explain_video(video, model, compare=compare or (), **wanted)
    if out is not None:
        write_report(explained, out)
    if figure is not None:
        attention_figure(explained.captions, figure)
    for found in explained.captions:
        print(escaped(f"{found.model}: {found.text}" if compare else found.text))


@app.command(rich_help_panel=VIDEOS)
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
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Show a page that captions videos and explains the captions.

    \b
    hoca serve
    hoca serve --model runs/mine --port 8000
    """
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
        device=device,
    )
    serve_page(settings)
