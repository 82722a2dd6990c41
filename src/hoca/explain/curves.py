"""Learning curves: the paper's figure of validation CIDEr by epoch, with the training loss beside it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from hoca.files import replacing

Points = Sequence[tuple[float, float]]


def read_curves(metrics: Path) -> dict[str, Points]:
    """The columns `loss` and `CIDEr` of a run's `metrics.csv` as (epoch, value) points."""
    with open(metrics, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [(float(r["epoch"]), float(r[name])) for r in rows if r[name]] for name in ("loss", "CIDEr")}


def curves_figure(runs: Mapping[str, Path], path: Path) -> None:
    """One line per run, from its `metrics.csv`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2)
    for label, metrics in runs.items():
        for axis, points in zip(axes, read_curves(metrics).values(), strict=True):
            axis.plot([x for x, _ in points], [y for _, y in points], label=label, marker=".", linewidth=1.2)
    for axis, name in zip(axes, ("training loss per caption", "validation CIDEr (greedy)"), strict=True):
        axis.set_xlabel("epoch")
        axis.set_title(name, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    if len(runs) > 1:
        axes[1].legend(frameon=False, fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=120)
