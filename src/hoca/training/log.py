"""What a run leaves to look at: `metrics.csv`, `curves.png`, TensorBoard events, a bar and a line per epoch."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from hoca.explain.curves import curves_figure
from hoca.files import replacing
from hoca.progress import bar, say

Row = dict[str, Any]
COLUMNS = ("epoch", "step", "loss", "CIDEr", "learning_rate", "seconds")


class Log:
    """Only the first of several processes gets one."""

    def __init__(self, run: Path, epochs: int, *, purge: int) -> None:
        self.run, self.epochs = run, epochs
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._best: float | None = None
        self._events = _events(run, purge)

    def begin(self, epoch: int, start: int, batches: int) -> None:
        self._bar = bar()
        self._bar.start()
        self._task = self._bar.add_task(f"epoch {epoch + 1}/{self.epochs}", total=batches, completed=start, note="")

    def advance(self, loss: float | None) -> None:
        assert self._bar is not None
        assert self._task is not None
        best = "" if self._best is None else f", best CIDEr {self._best:.3f}"
        self._bar.update(self._task, advance=1, note="" if loss is None else f"loss {loss:.3f}{best}")

    def end(self, rows: list[Row], *, improved: bool) -> None:
        """Close the epoch: its row goes to the table, the plot, the events and the user."""
        self.close()
        row = rows[-1]
        self.rewrite(rows)
        if row["CIDEr"] is not None and improved:
            self._best = row["CIDEr"]
        if self._events is not None:
            for name in ("loss", "CIDEr", "learning_rate"):
                if row[name] is not None:
                    self._events.add_scalar(name, row[name], row["step"])
            self._events.flush()
        left = (self.epochs - row["epoch"]) * row["seconds"]
        score = "" if row["CIDEr"] is None else f"  CIDEr {row['CIDEr']:.4f}{' (best)' if improved else ''}"
        say(f"epoch {row['epoch']}/{self.epochs}  loss {row['loss']:.4f}{score}  {row['seconds']:.1f} s, "
            f"at most {left:.0f} s left")  # fmt: skip

    def rewrite(self, rows: list[Row]) -> None:
        with replacing(self.run / "metrics.csv") as temporary, open(temporary, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        curves_figure({self.run.name: self.run / "metrics.csv"}, self.run / "curves.png")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _events(run: Path, purge: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        say("TensorBoard is not installed: metrics.csv is written without it (pip install 'hoca[logging]')")
        return None
    return SummaryWriter(str(run / "events"), purge_step=purge)
