"""Figures from the tables in `results/`: scores by rank, and what attention costs."""

from __future__ import annotations

import csv
import re
from itertools import cycle
from pathlib import Path

from hoca.errors import UserError
from hoca.explain.drawing import new_figure, save

Row = dict[str, str]
COSTS = {  # column → axis label, and how many of its units make one of the label's
    "ms": ("milliseconds", 1.0),
    "seconds": ("seconds", 1.0),
    "peak_bytes": ("peak memory, GiB", float(2**30)),
    "peak_gb": ("peak memory, GB", 1.0),
}
# What tells two rows of a measurement apart; conditions and results are other columns.
SUBJECTS = (
    *("model", "form", "attention", "sampling", "modality", "part", "path", "backend", "chunks"),
    *("modalities", "batch", "words", "steps", "size", "rank", "beam", "precision", "dtype"),
)


def rank_figure(table: Path, path: Path, score: str = "CIDEr") -> None:
    """The paper's figure of the rank: rows `NAME` (rank 1) and `NAME rank K` of a table, the exact form beside them."""
    rows = {row.get("variant", ""): row for row in read_table(table, ("variant", score))}
    ranked = {match[1]: {1: rows[match[1]]} for name in rows if (match := _ranked(name)) and match[1] in rows}
    for name, row in rows.items():
        if (match := _ranked(name)) and match[1] in ranked:
            ranked[match[1]][int(match[2])] = row
    if not ranked:
        raise UserError(f"{table} has no rows `NAME` and `NAME rank K`: give the table of a rank study")
    figure = new_figure(4.5, 3)
    axis = figure.subplots()
    axis.set_xscale("log", base=2)
    shown = sorted({rank for by_rank in ranked.values() for rank in by_rank})
    for (name, by_rank), colour in zip(ranked.items(), cycle(("green", "#2b62d9", "#8a3fb0")), strict=False):
        ranks = sorted(by_rank)
        values = [_number(by_rank[rank], score, table) for rank in ranks]
        spread = [float(by_rank[rank].get(f"{score} ci") or by_rank[rank].get(f"{score} sd") or 0) for rank in ranks]
        axis.errorbar(ranks, values, spread, marker="o", capsize=3, label=name, color=colour)
        if exact := rows.get(name.removeprefix("l-")):
            axis.axhline(_number(exact, score, table), color="red", label=name.removeprefix("l-"))
    axis.set_xticks(shown, [str(rank) for rank in shown])
    axis.minorticks_off()
    axis.set_xlabel("rank")
    axis.set_ylabel(score)
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    save(figure, path, dpi=120)


def cost_figure(table: Path, path: Path) -> None:
    """A bar per row of a measurement: its time and its memory, whichever the table has."""
    rows = read_table(table, ())
    costs = [name for name in COSTS if any(row.get(name) for row in rows)]
    if not costs:
        raise UserError(f"{table} has none of the columns {', '.join(COSTS)}: give a table that `hoca bench` wrote")
    telling = [name for name in SUBJECTS if len({row.get(name, "") for row in rows}) > 1]
    labels = [" ".join(_said(name, row[name]) for name in telling if row.get(name)) for row in rows]
    figure = new_figure(3.5 + 3 * len(costs), 1.0 + 0.28 * len(rows))
    axes = figure.subplots(1, len(costs), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, costs, strict=True):
        title, unit = COSTS[name]
        measured = [(place, _number(row, name, table) / unit) for place, row in enumerate(rows) if row.get(name)]
        bars = axis.barh([place for place, _ in measured], [value for _, value in measured], color="#2b62d9")
        axis.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        axis.set_xlabel(title)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(rows)), labels, fontsize=8)
    axes[0].invert_yaxis()
    save(figure, path, dpi=120)


def read_table(table: Path, columns: tuple[str, ...]) -> list[Row]:
    """The rows of a CSV file that has at least these columns."""
    try:
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise UserError(f"no results: there is no {table}; name a table, such as one that `hoca bench` wrote") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read the table {table} ({error}): give a CSV file of results/") from None
    for name in columns:
        if not rows or name not in rows[0]:
            raise UserError(f"{table} has no column {name!r}: give another table of results/")
    return rows


def _ranked(name: str) -> re.Match[str] | None:
    return re.fullmatch(r"(.+) rank (\d+)", name)


def _number(row: Row, name: str, table: Path) -> float:
    try:
        return float(row[name])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{table}: {name}={row.get(name)!r} is no number") from None


def _said(name: str, value: str) -> str:
    """A column's value so that it is understood without the column: numbers keep its name."""
    return f"{name} {value}" if re.fullmatch(r"[\d.]+", value) else value
