"""What a run leaves to look at: `metrics.csv`, `curves.png`, TensorBoard events, a bar and a line per epoch."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hoca.explain.curves import curves_figure
from hoca.files import replacing
from hoca.progress import bar, say

Row = dict[str, Any]
FIRST, LAST = ("epoch", "step", "loss"), ("CIDEr", "learning_rate", "seconds")  # columns around the parts of the loss
SECONDS_BETWEEN_PLOTS = 10.0


class Log:
    """Only the first of several processes keeps one."""

    def __init__(self, run: Path, epochs: int, batches: int) -> None:
        self.run, self.epochs, self.batches = run, epochs, batches
        self._bar = bar()
        self._task = self._bar.add_task("", total=epochs * batches, note="")
        self._scores = ""
        self._plotted = time.monotonic()
        self._events = _open_events(run)

    def start(self, step: int, rows: list[Row]) -> None:
        """Show the bar from `step` on; the epochs of a run that is resumed are written again, whatever was lost."""
        self._bar.update(self._task, completed=step, description=self._epoch(step))
        self._bar.start()
        if rows:
            self._write_table(rows)
            self._describe_scores(rows)
        for row in rows:
            self._write_events(row)

    def advance(self, step: int, losses: Mapping[str, float]) -> None:
        """losses: per caption, by name."""
        note = ", ".join(f"{name} {value:.3f}" for name, value in losses.items()) + self._scores
        self._bar.update(self._task, completed=step, description=self._epoch(step), note=note)

    def end_epoch(self, rows: list[Row], *, improved: bool) -> None:
        """The row of the epoch goes to the table, the plot, the events and the user."""
        row = rows[-1]
        self._write_table(rows)
        self._write_events(row)
        self._describe_scores(rows)
        if time.monotonic() - self._plotted > SECONDS_BETWEEN_PLOTS:
            self._plot()
        left = (self.epochs - row["epoch"]) * row["seconds"]
        score = "" if row["CIDEr"] is None else f"  CIDEr {100 * row['CIDEr']:.2f}{' (best)' if improved else ''}"
        took = f"{row['seconds']:.1f} s, at most {left:.0f} s left"
        losses = "  ".join(f"{name} {row[name]:.4f}" for name in ("loss", *parts_of([row])))
        say(f"epoch {row['epoch']}/{self.epochs}  {losses}{score}  {took}")

    def finish(self, rows: list[Row]) -> None:
        if rows:
            self._plot()

    def close(self) -> None:
        self._bar.stop()

    def _epoch(self, step: int) -> str:
        return f"epoch {min(self.epochs, step // self.batches + 1)}/{self.epochs}"

    def _describe_scores(self, rows: list[Row]) -> None:
        scores = [row["CIDEr"] for row in rows if row["CIDEr"] is not None]
        self._scores = f", CIDEr {100 * scores[-1]:.1f}, best {100 * max(scores):.1f}" if scores else ""

    def _write_table(self, rows: list[Row]) -> None:
        with replacing(self.run / "metrics.csv") as temporary, open(temporary, "w", newline="") as file:
            writer = csv.DictWriter(file, [*FIRST, *parts_of(rows), *LAST])
            writer.writeheader()
            writer.writerows(rows)

    def _write_events(self, row: Row) -> None:
        if self._events is None:
            return
        for name in ("loss", *parts_of([row]), "CIDEr", "learning_rate"):
            if row[name] is not None:
                self._events.add_scalar(name, row[name], row["step"])
        self._events.flush()

    def _plot(self) -> None:
        curves_figure({self.run.name: self.run / "metrics.csv"}, self.run / "curves.png")
        self._plotted = time.monotonic()


def parts_of(rows: list[Row]) -> list[str]:
    """The names of the parts of the loss, where it has several."""
    return list(dict.fromkeys(name for row in rows for name in row if name not in (*FIRST, *LAST)))


def _open_events(run: Path) -> Any:
    """TensorBoard's writer. It hides what was written before a resume: `Log.start` writes that again."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        say("TensorBoard is not installed: metrics.csv is written without it (pip install 'hoca[logging]')")
        return None
    return SummaryWriter(str(run / "events"), purge_step=0)
