"""Where the sentences of `hoca caption` go: standard output, a file, a report; and what an interrupted one left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoca.cli.inputs import Input
from hoca.cli.partial import Partial, identity, stamp
from hoca.cli.rows import FORMATS, Row, Style, merged_rows
from hoca.errors import UserError
from hoca.files import replacing
from hoca.progress import console, say

if TYPE_CHECKING:
    from hoca.captioning import Caption
    from hoca.cli.sentences import Job, Shown


def caption_stored(job: Job, features: Path, ids: list[str], format: str, style: Style, out: Path | None) -> int:
    """Caption videos of a feature store, all of them if none is named; how many that are."""
    from hoca.features import FeatureStore

    store = FeatureStore(features)
    chosen = ids or store.ids()
    if not chosen:
        raise UserError(f"no features in {features}: extract some with hoca extract")
    _write(FORMATS[format](job.stored(store, chosen), replace(style, named=True)), out)
    return len(chosen)


def caption_files(
    job: Job,
    model: str,
    files: list[Input | UserError],
    format: str,
    style: Style,
    out: Path | None,
    report: Path | None,
) -> None:
    """Caption files. What goes to a file is kept beside it until it is whole, and used by the next run."""
    if console.is_terminal:
        networks = ", ".join(f"{each.name} ({name})" for name, each in job.captioner.extractor.backbones.items())
        say(f"loaded its networks: {networks}")
    kept = out or (report if job.in_segments else None)
    if kept is not None and (kept.is_file() or not kept.exists()):  # nothing can be kept beside a device or a pipe
        job.partial = Partial(kept, _settings(job, files, report))
    if report is not None:
        job.shown = _shown(model, job, None if job.in_segments else report)
    job.log = out is not None
    style = replace(style, named=len(files) > 1)
    unsure = 0

    def pieces(rows: Iterable[Row]) -> Iterator[str]:
        return FORMATS[format](counted(merged_rows(rows)), style)

    def counted(rows: Iterable[Row]) -> Iterator[Row]:
        nonlocal unsure
        for row in rows:
            unsure += row.caption.unsure(style.least)
            yield row

    if out is None or job.partial is None:
        _write(pieces(job.rows(files)), out)
    else:
        for _ in job.rows(files):  # each is kept
            pass
    if job.partial is not None:
        if job.failed < len(files):
            if out is not None:
                _write(pieces(row for row, _ in job.partial.records()), out)
            if report is not None and job.in_segments:
                _write_film_report(job.partial, files, report)
        job.partial.done()
    if unsure and format == "text":
        say(f"? = unsure: confidence below {style.least:g}, which --min-confidence changes")


def _write(pieces: Iterable[str], out: Path | None) -> None:
    """To standard output as they come, or to a file that is there when it is whole."""
    if out is None:
        for piece in pieces:
            print(piece, end="", flush=True)
        return
    with replacing(out) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        file.writelines(pieces)


def _settings(job: Job, files: list[Input | UserError], report: Path | None) -> dict[str, Any]:
    """What must be the same for sentences of an earlier run to be used."""
    return {
        **{"model": identity(job.captioner), "beam": job.search.beam, "category": job.category, "explain": job.explain},
        **{"every": job.every, "scenes": job.scenes, "start": job.start, "end": job.end, "report": bool(report)},
        "files": [stamp(file.path) for file in files if not isinstance(file, UserError)],
    }


def _shown(model: str, job: Job, report: Path | None) -> Shown:
    """What a report needs of a caption: that of one clip is written at once, that of a segment is kept."""
    from hoca.explain import collect, model_name, segment_content, write_report

    def shown(file: Input, caption: Caption) -> Any:
        explained = collect(Path(file.name), [(model_name(model), job.captioner, caption)])
        if report is None:
            return segment_content(explained)
        write_report(explained, report)
        return None

    return shown


def _write_film_report(partial: Partial, files: list[Input | UserError], report: Path) -> None:
    from hoca.explain import film_report, film_segments
    from hoca.explain.report import write_page

    (file,) = (file for file in files if not isinstance(file, UserError))
    shown = film_segments((row.segment, content) for row, content in partial.records() if row.segment and content)
    write_page(film_report(Path(file.name).name, shown), report)
