"""Long work shows itself: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(line: str) -> None:
    """One line for the user, beside any bar; standard output stays free for results."""
    console.print(line, markup=False)


def track(items: Iterable[T], *, total: int, what: str, every: float = 10.0) -> Iterator[T]:
    """The items, with their count shown; a log gets a line every so many seconds."""
    with bar() as progress:
        task = progress.add_task(what, total=total, note="")
        last = time.monotonic()
        for number, item in enumerate(items, start=1):
            yield item
            progress.advance(task)
            if not console.is_terminal and time.monotonic() - last > every:
                last = time.monotonic()
                say(f"{what}: {number} of {total}")


def bar() -> Progress:
    """A bar with a note at its end; invisible when the output is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # results that go to a file or a pipe are not for the terminal
    )
