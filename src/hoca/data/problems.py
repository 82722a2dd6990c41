"""What is wrong with a user's data: one clear line each, counted, and the choice to stop or to go on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, get_args

from hoca.errors import BadDataset, UserError

OnProblem = Literal["stop", "skip"]
Report = Callable[[str], None]

SHOWN_PER_KIND = 5

log = logging.getLogger("hoca.data")


class Problems:
    """Collects the problems of one dataset.

    `on_problem="stop"` raises a `BadDataset` at the first; `"skip"` leaves the item out, reports the first few of each
    kind and, when `close` is called, one line per kind with its count.
    """

    def __init__(self, on_problem: OnProblem = "stop", report: Report | None = None) -> None:
        if on_problem not in get_args(OnProblem):
            raise UserError(f"on_problem is {on_problem!r}: choose stop or skip")
        self.on_problem = on_problem
        self._report = report
        self.counts: Counter[str] = Counter()
        self._closed: Counter[str] = Counter()

    def add(self, kind: str, line: str) -> None:
        """Note one problem: `kind` is what is counted, `line` says what, in which file and line or id, and the fix."""
        self.counts[kind] += 1
        if self.on_problem == "stop":
            raise BadDataset(line)
        if self.counts[kind] <= SHOWN_PER_KIND:
            self._say(f"skipped: {line}")

    def close(self, where: str) -> None:
        """Report one line per kind that is new since the last call."""
        for kind, count in self.counts.items():
            if count > self._closed[kind]:
                self._say(f"{where}: skipped {count - self._closed[kind]} × {kind}")
        self._closed = self.counts.copy()

    def _say(self, line: str) -> None:
        (self._report or log.warning)(line)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_report": None}  # a worker process cannot be handed the caller's function
