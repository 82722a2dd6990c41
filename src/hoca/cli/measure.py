"""Measurements and their figures: bench, plot."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from hoca.cli.common import RESULTS, Device, Figure, Threads, bench_app, plot_app
from hoca.cli.help import KeyCommand
from hoca.options import Key, check_bounds, from_arguments, keys_of

BENCHMARKS = {
    "attention": ("Scores of one group of modalities, on every path.", "words=300 precisions=[bf16]"),
    "train": ("A training step on every path, and an epoch of MSR-VTT's shape.", "models=[l-hoca-ubt] epoch=false"),
    "reward": ("A step with rewards beside one of eq. 24.", "models=[l-hoca-ubt] precisions=[bf16]"),
    "generate": ("Beam search over the videos of MSR-VTT's test split.", "videos=60 at_once=30 --device cpu"),
    "complexity": ("Memory and time against modalities, steps and rank.", "size=512 videos=25"),
    "metrics": ("Captions scored a second.", "videos=500 --out metrics.csv"),
    "extract": ("Seconds of video that become features in a second.", "videos=clips/ sampling=both"),
    "caption": ("Seconds of captioning a folder, stage by stage.", "videos=clips/ clips=10 --device cpu"),
    "scale": ("How a dataset's cost grows with its size.", "entries=[1000,10000]"),
    "threads": ("CPU threads as hoca chooses them, beside fixed numbers.", "repeats=1 clips=2"),
}


class BenchCommand(KeyCommand):
    def keys(self) -> Iterable[Key]:
        return keys_of(import_module(f"hoca.bench.{self.name}").Options)


def bench(
    ctx: typer.Context,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Sizes and choices, see below.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The table; results/bench-WHAT.csv by default.")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    from hoca.devices import choose_device

    name = ctx.command.name
    module = import_module(f"hoca.bench.{name}")
    chosen = from_arguments(module.Options, options)
    check_bounds(chosen)
    module.run(chosen, device=choose_device(device), out=out or RESULTS / f"bench-{name}.csv")


for _name, (_about, _keys) in BENCHMARKS.items():
    _help = f"{_about}\n\n\b\nhoca bench {_name}\nhoca bench {_name} {_keys}"
    bench_app.command(_name, cls=BenchCommand, help=_help, short_help=_about)(bench)


@plot_app.command("curves")
def plot_curves(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    out: Figure,
) -> None:
    """Learning curves of runs: training loss and validation CIDEr by epoch.

    \b
    hoca plot curves runs/binding --out curves.png
    hoca plot curves runs/one runs/other --out curves.pdf
    """
    from hoca.explain import curves_figure

    names = [run.resolve().name for run in runs]
    labels = names if len(set(names)) == len(names) else [str(run) for run in runs]
    curves_figure({label: run / "metrics.csv" for label, run in zip(labels, runs, strict=True)}, out)


@plot_app.command("rank")
def plot_rank(
    out: Figure,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A table with rows `NAME rank K`.")] = RESULTS
    / "ablation-binding.csv",
    score: Annotated[str, typer.Option(metavar="COLUMN", help="Which column.")] = "CIDEr",
) -> None:
    """A score by the rank of low-rank attention.

    \b
    hoca plot rank --out rank.png
    hoca plot rank results/ablation-binding.csv --score BLEU-4 --out rank.pdf
    """
    from hoca.explain import rank_figure

    rank_figure(table, out, score)


@plot_app.command("cost")
def plot_cost(
    out: Figure,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A table of measured costs.")] = RESULTS
    / "attention-memory.csv",
) -> None:
    """Time and memory, a bar per row of a table.

    \b
    hoca plot cost --out cost.png
    hoca plot cost results/bench-train.csv --out cost.pdf
    """
    from hoca.explain import cost_figure

    cost_figure(table, out)
