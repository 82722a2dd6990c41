"""Learning curves: the paper's figure of validation CIDEr by epoch, with the training loss beside it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from hoca.errors import UserError
from hoca.explain.drawing import new_figure, save

Points = Sequence[tuple[float, float]]
TITLES = {"loss": "training loss per caption", "CIDEr": "validation CIDEr (greedy), × 100"}


def read_curves(metrics: Path) -> dict[str, Points]:
    """The columns `loss` and `CIDEr` of a run's `metrics.csv` as (epoch, value) points."""
    try:
        with open(metrics, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {name: [(float(r["epoch"]), float(r[name])) for r in rows if r[name]] for name in TITLES}
    except FileNotFoundError:
        raise UserError(f"no results: there is no {metrics}; give a run that has finished an epoch") from None
    except OSError as error:
        raise UserError(f"cannot read {metrics} ({error.strerror}): give the metrics.csv of a run") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{metrics} is no metrics.csv of a run: it needs the columns epoch, loss and CIDEr") from error


def curves_figure(runs: Mapping[str, Path], path: Path) -> None:
    """One line per run, from its `metrics.csv`."""
    curves = {label: read_curves(metrics) for label, metrics in runs.items()}
    figure = new_figure(width=8, height=3.2)
    for axis, (name, title) in zip(figure.subplots(1, 2), TITLES.items(), strict=True):
        for label, columns in curves.items():
            scale = 100 if name == "CIDEr" else 1
            points = [(x, scale * y) for x, y in columns[name]]
            axis.plot([x for x, _ in points], [y for _, y in points], label=label, marker=".", linewidth=1.2)
        axis.set_xlabel("epoch")
        axis.set_title(title, fontsize=10)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
    if len(runs) > 1:
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    save(figure, path, dpi=120)
