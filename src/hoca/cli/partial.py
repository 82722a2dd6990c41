"""Sentences of a command that has not ended yet, kept beside its result so that the same command resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoca.cli.rows import Row
from hoca.progress import say

if TYPE_CHECKING:
    from hoca.captioning import VideoCaptioner

FORMAT = "hoca-captions-1"


class Partial:
    """`RESULT.partial`: a line that says what it is of, then a line for each sentence. It is removed with `done`."""

    def __init__(self, result: Path, settings: Mapping[str, Any]) -> None:
        self.path = result.with_name(f"{result.name}.partial")
        self.head = json.dumps({"format": FORMAT, **settings}, sort_keys=True)
        kept, count = self._kept()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.path, "r+" if kept else "w", encoding="utf-8")  # noqa: SIM115  closed by `done` or the end
        if kept:
            self.file.truncate(kept)  # a last line that was cut off
            self.file.seek(0, os.SEEK_END)
            say(f"resuming: {count} sentences are in {self.path}")
        else:
            self.file.write(self.head + "\n")

    def _kept(self) -> tuple[int, int]:
        """How many bytes of the file are whole lines of the same command, and how many sentences these are."""
        if not self.path.is_file():
            return 0, 0
        size, count = 0, -1
        with open(self.path, "rb") as file:
            for line in file:
                if not size and line.decode("utf-8", "replace") != self.head + "\n":
                    say(f"{self.path} is of another command, model or file: beginning again")
                    return 0, 0
                if not line.endswith(b"\n") or (size and _record(line) is None):
                    break
                size, count = size + len(line), count + 1
        return (size, count) if count > 0 else (0, 0)

    def add(self, row: Row, shown: Any = None) -> None:
        """Keep a sentence, and what a report shows of it."""
        where = [row.segment.start, row.segment.end] if row.segment else None
        record = {"video": row.video, "where": where, "caption": row.caption.to_json(), "shown": shown}
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def records(self) -> Iterator[tuple[Row, Any]]:
        """All that was kept, one at a time."""
        self.file.flush()
        with open(self.path, "rb") as file:
            next(file, None)
            for line in file:
                if (record := _record(line)) is not None:
                    yield record

    def done(self) -> None:
        self.file.close()
        self.path.unlink(missing_ok=True)


def _record(line: bytes) -> tuple[Row, Any] | None:
    from hoca.captioning import Caption, Segment

    try:
        found = json.loads(line)
        caption = Caption.from_json(found["caption"])
        if found["where"] is None:
            return Row(found["video"], caption), found["shown"]
        start, end = map(float, found["where"])
        return Row(found["video"], caption, Segment(start, end, caption, (start, end))), found["shown"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def identity(captioner: VideoCaptioner) -> str:
    """A hash of the model and of how its features are made."""
    import torch

    found = hashlib.sha256(json.dumps(captioner.specification, sort_keys=True).encode())
    for name, values in captioner.model.state_dict().items():
        found.update(name.encode())
        found.update(values.detach().cpu().flatten().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def stamp(path: Path) -> list[Any]:
    """What tells that a file is still the same."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return [str(path)]
    return [os.path.realpath(path), status.st_size, status.st_mtime_ns]
