"""What the tables of several studies have in common: means with intervals, paired differences, learning curves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from experiment import Row
from significance import paired_t, t_interval

from hoca.explain.drawing import new_figure, save

NATS = "nats"  # in columns whose names end so, values are as measured; in others they become percent


def by_variant(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["variant"], []).append(row)
    return found


def summarise(rows: Sequence[Row], columns: Sequence[str], over: str = "seeds") -> list[Row]:
    """Mean of each variant, and half the width of its 95 % interval over the seeds or folds."""
    found = []
    for variant, mine in by_variant(rows).items():
        of_variant: Row = {"variant": variant, over: len(mine)}
        for column in columns:
            values = [_times(column) * float(row[column]) for row in mine if row.get(column)]
            of_variant[column] = _rounded(fmean(values), column) if values else ""
            of_variant[f"{column} ci"] = _rounded(t_interval(values), column) if values else ""
        of_variant["epochs"] = round(fmean(float(row["epochs"]) for row in mine), 1)
        of_variant["best epoch"] = round(fmean(float(row["best_epoch"]) for row in mine), 1)
        found.append(of_variant)
    return found


def pairs_of(mine: Sequence[Row], others: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The runs of two variants that have the same seed and fold."""
    theirs = {(row["seed"], row["fold"]): row for row in others}
    return [(row, theirs[row["seed"], row["fold"]]) for row in mine if (row["seed"], row["fold"]) in theirs]


def differences(pairs: Sequence[tuple[Row, Row]], columns: Sequence[str]) -> Row:
    """The mean difference in each column, and the probability of it by chance (t test)."""
    line: Row = {}
    for column in columns:
        ours, others = ([float(row[column]) for row in side] for side in zip(*pairs, strict=True))
        line[f"{column} difference"] = _rounded(_times(column) * (fmean(ours) - fmean(others)), column)
        line[f"{column} p"] = _probability(paired_t(ours, others))
    return line


def curves_figure(rows: Sequence[Row], variants: Collection[str], path: Path) -> None:
    """Validation CIDEr by epoch: the mean over seeds or folds, and a band from the least to the most of them."""
    figure = new_figure(9, 3.4)
    axis = figure.subplots()
    for variant, mine in by_variant(rows).items():
        if variant not in variants:
            continue
        curves = [[100 * float(value) for value in row["curve"].split()] for row in mine]
        longest = max(map(len, curves))
        # A run that stopped keeps its best checkpoint: from there on its curve is level.
        filled = np.array([curve + [max(curve)] * (longest - len(curve)) for curve in curves])  # [runs, epochs]
        epochs = np.arange(1, longest + 1)
        (line,) = axis.plot(epochs, filled.mean(0), label=variant, linewidth=1.3)
        axis.fill_between(epochs, filled.min(0), filled.max(0), alpha=0.12, color=line.get_color())
    axis.set_xlabel("epoch")
    axis.set_ylabel("validation CIDEr (greedy)")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    save(figure, path, dpi=120)


def _times(column: str) -> float:
    return 1 if column.endswith(NATS) else 100


def _rounded(value: float, column: str = "") -> float | str:
    return "" if math.isnan(value) else round(value, 4 if column.endswith(NATS) else 2)


def _probability(value: float) -> str:
    return "" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
