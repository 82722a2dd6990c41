"""What `hoca caption` is given: files, folders and patterns, standard input, addresses that it does not fetch."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hoca.errors import UserError
from hoca.files import in_units, printable

STDIN = "-"
PIECE = 1 << 20


@dataclass(frozen=True)
class Input:
    path: Path
    name: str  # printable

    def told(self, error: UserError) -> UserError:
        """The error by the name that the user gave, not that of a temporary file."""
        return error if self.name != STDIN else UserError(str(error).replace(printable(self.path), "standard input"))


@contextmanager
def inputs(given: Sequence[str], largest: int) -> Iterator[list[Input | UserError]]:
    """The files that are meant; in place of what is not there, the complaint. Standard input becomes a temporary file
    of at most `largest` bytes."""
    from hoca.features.engines.videos import files

    with ExitStack() as stack:
        found: list[Input | UserError] = []
        for each in given:
            try:
                if each == STDIN:
                    found.append(Input(stack.enter_context(_spooled(largest)), STDIN))
                elif re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", each):
                    raise UserError(f"{each}: URLs are not fetched: download the video and give its file")
                else:
                    found.extend(Input(Path(file), printable(file)) for file in files([each]))
            except UserError as error:
                found.append(error)
        yield found


@contextmanager
def _spooled(largest: int) -> Iterator[Path]:
    """Standard input as a file: decoders need to go back and forth in it."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UserError("standard input is a terminal: give a file to it, as in `hoca caption - < clip.mp4`")
    with tempfile.NamedTemporaryFile(prefix="hoca-stdin-") as file:
        while piece := sys.stdin.buffer.read(PIECE):
            if file.tell() + len(piece) > largest:
                raise UserError(
                    f"standard input has more than the limit of {in_units(largest)}: --limit bytes=N allows more"
                )
            file.write(piece)
        file.flush()
        yield Path(file.name)
