"""What the commands share: the groups that they belong to, options, and how results are printed."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hoca.cli.help import DATA, MEASUREMENTS, Commands
from hoca.garbage import no_garbage_collection

app = Commands(
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`hoca COMMAND -h` shows a command's options. `hoca --install-completion` lets your shell complete them.",
)
data_app = Commands(help="Prepare datasets; features from and to HDF5 files.")
assets_app = Commands(help="Weights and word lists that are fetched once.")
bench_app = Commands(help="Measure speed and memory; ratios only where the result was checked in the same command.")
plot_app = Commands(help="Draw figures of runs and of results/.")
app.add_typer(data_app, name="data", rich_help_panel=DATA)
app.add_typer(assets_app, name="assets", rich_help_panel=DATA)
app.add_typer(bench_app, name="bench", rich_help_panel=MEASUREMENTS)
app.add_typer(plot_app, name="plot", rich_help_panel=MEASUREMENTS)


def _version(wanted: bool) -> None:
    if wanted:
        from hoca import __version__

        print(f"hoca {__version__}")
        raise typer.Exit


@app.callback()
def _hoca(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Say what happens in a video.

    \b
    hoca caption clip.mp4
    hoca explain clip.mp4 --out report.html
    """


@contextmanager
def importing_torch() -> Iterator[None]:
    """Look for no garbage meanwhile, nor later in what was made: torch is half a million objects that all stay."""
    with no_garbage_collection():
        try:
            yield
        finally:
            if not gc.get_freeze_count():  # a second call would keep what has become garbage since
                gc.freeze()


def _threads(count: int | None) -> int | None:
    if count is not None:
        from hoca.threads import fix_threads

        fix_threads(count)
    return count


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Model = Annotated[Path, typer.Option("--model", metavar="MODEL", help="A run folder or a checkpoint.")]
ModelOrDefault = Annotated[
    str, typer.Option("--model", metavar="MODEL", help="A run folder, a checkpoint, `default` or `hoca-u`.")
]
Beam = Annotated[int | None, typer.Option(min=1, metavar="N", help="Width of the search; 1 is greedy.")]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu or cuda.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", callback=_threads, help="CPU threads; by default as many as the work is worth."),
]
Figure = Annotated[Path, typer.Option(metavar="FILE", help="Where to write the figure: .png, .pdf or .svg.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="What one file may cost: bytes, seconds, pixels, frames, decode_seconds, memory. May be repeated.",
    ),
]
Category = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The videos' category, for a model that was trained with categories."),
]
RESULTS = Path("results")


def print_scores(scores: dict[str, float], as_json: bool) -> None:
    if as_json:
        print_json(scores)
    else:
        print("\n".join(f"{name:8} {100 * value:6.2f}" for name, value in scores.items()))


def print_json(value: Any) -> None:
    print(json_line(value), flush=True)


def json_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Inside a string of JSON an escape is the same character, and no terminal obeys it.
    return "".join(mark if mark.isprintable() else json.dumps(mark)[1:-1] for mark in text)
