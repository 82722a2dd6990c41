"""The work of `hoca caption`: a sentence for each video, or for each segment of it, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hoca.cli.inputs import Input
from hoca.cli.partial import Partial
from hoca.cli.rows import Row
from hoca.errors import UserError
from hoca.files import escaped, printable
from hoca.media.subtitles import clock_time
from hoca.progress import bar, console, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from hoca.captioning import Caption, Segment, VideoCaptioner
    from hoca.features import FeatureStore

Item = TypeVar("Item")
LOG = 10.0  # seconds between the lines of a log
Shown = Callable[[Input, "Caption"], Any]  # what a report needs of a caption that has just been made


@dataclass
class Job:
    captioner: VideoCaptioner
    search: Any  # the captioner's own, as wide as asked for
    category: str | None = None
    every: float | None = None
    scenes: bool = False
    start: float = 0.0
    end: float | None = None
    batch_size: int = 8  # as for `captions`
    explain: bool = True  # as for `caption`: whether anything of it is shown
    shown: Shown | None = None
    partial: Partial | None = None
    failed: int = 0
    log: bool = False  # whether to tell how far it is, for nothing else is seen of the work
    hints: bool = True  # whether to tell what a sentence alone does not: sound that is absent, a film that is long
    _told: float = field(default_factory=time.monotonic)

    @property
    def in_segments(self) -> bool:
        return self.every is not None or self.scenes

    def rows(self, files: list[Input | UserError]) -> Iterator[Row]:
        """A row for each video or segment, in order; what cannot be captioned is told and counted."""
        known = self._known()
        ahead = self._ahead([file for file in files if isinstance(file, Input) and file.name not in known])

        def of(file: Input | UserError, progress: Progress) -> Iterator[Row]:
            if isinstance(file, UserError):
                raise file
            try:
                yield from self._rows(file, known.get(file.name, []), progress, ahead)
            except UserError as error:
                raise file.told(error) from error

        return self._all(files, of)

    def stored(self, store: FeatureStore, ids: list[str]) -> Iterator[Row]:
        """A row for each id of a feature store."""
        from hoca.captioning.stored import stored_features

        def of(id: str, progress: Progress) -> Iterator[Row]:
            given = stored_features(self.captioner, store, id)
            options: dict[str, Any] = {"category": self.captioner.category(self.category), "explain": self.explain}
            yield Row(printable(id), self.captioner.describe(given, self.search, **options))

        return self._all(ids, of)

    def _all(self, items: list[Item], rows: Callable[[Item, Progress], Iterator[Row]]) -> Iterator[Row]:
        """The rows of each, with progress; one that fails costs itself alone."""
        with bar() as progress:
            task = progress.add_task("captioning", total=len(items), note="")
            for number, item in enumerate(items, start=1):
                try:
                    yield from rows(item, progress)
                except UserError as error:
                    self.failed += 1
                    say(f"hoca: {escaped(str(error))}")
                progress.advance(task)
                if number < len(items):
                    self._log(f"captioning: {number} of {len(items)}")

    def _known(self) -> dict[str, list[Row]]:
        known: dict[str, list[Row]] = {}
        for row, _ in self.partial.records() if self.partial else ():
            known.setdefault(row.video, []).append(row)
        return known

    def _ahead(self, files: list[Input]) -> Iterator[Caption | UserError] | None:
        """The captions of whole files, of which the next are decoded while one is said; None where that is not all."""
        if self.in_segments or self.shown or self.start or self.end is not None:
            return None
        options: dict[str, Any] = {"category": self.category, "batch_size": self.batch_size, "explain": self.explain}
        return self.captioner.captions([file.path for file in files], self.search, **options)

    def _rows(
        self, file: Input, known: list[Row], progress: Progress, ahead: Iterator[Caption | UserError] | None
    ) -> Iterator[Row]:
        yield from known
        if self.in_segments:
            yield from self._segments(file, known[-1].segment if known else None, progress)
        elif not known:
            found = self._caption(file) if ahead is None else next(ahead)
            if isinstance(found, UserError):
                raise found
            self._keep(row := Row(file.name, found), self.shown and self.shown(file, found))
            yield row
            self._hint(file, found)

    def _caption(self, file: Input) -> Caption:
        pictures = self.captioner.pictures if self.shown else 0
        options: dict[str, Any] = {"category": self.category, "start": self.start, "end": self.end}
        return self.captioner.caption(file.path, self.search, pictures=pictures, explain=self.explain, **options)

    def _segments(self, file: Input, last: Segment | None, progress: Progress) -> Iterator[Row]:
        from hoca.captioning.segments import Film, captioned

        film = Film.measure(self.captioner, file.path, self.start, self.end, None)
        total = film.end - film.start
        if last is not None:
            if last.end >= film.end - 1e-3:
                return
            film = replace(film, start=last.end)
        spans = film.spans(self.captioner, self.every, self.scenes, None)
        pictures = self.captioner.pictures if self.shown else 0
        task = progress.add_task(
            file.name, total=round(total), completed=round(total - film.end + film.start), note="s"
        )
        found = captioned(
            self.captioner,
            film,
            spans,
            problem=lambda error: say(f"hoca: {escaped(str(file.told(error)))}"),
            search=self.search,
            category=self.category,
            pictures=pictures,
            explain=self.explain,
        )
        count = 0
        for count, segment in enumerate(found, start=1):
            row = Row(file.name, segment.caption, segment)
            self._keep(row, self.shown and self.shown(file, segment.caption))
            yield row
            done = total - film.end + segment.end
            progress.update(task, completed=round(done), note=f"s, {count} sentences")
            self._log(f"{file.name}: {clock_time(segment.end)} of {clock_time(film.end)}, {count} sentences")
            if count == 1 and last is None:
                self._hint(file, segment.caption)
        progress.remove_task(task)
        if not count and last is None:
            raise UserError(f"{printable(file.path)}: none of its segments can be captioned")

    def _keep(self, row: Row, shown: Any) -> None:
        if self.partial is not None:
            self.partial.add(row, shown)

    def _hint(self, file: Input, caption: Caption) -> None:
        from hoca.captioning.segments import SHORT_CLIP

        if not self.hints:
            return
        if "image" in caption.absent:
            say(f"{file.name}: nothing was seen ({caption.absent['image']}): the sentence is from the rest alone")
        if "audio" in caption.absent:
            say(f"{file.name}: nothing was heard ({caption.absent['audio']}): the sentence is from the pictures alone")
        if not self.in_segments and (caption.duration or 0.0) > SHORT_CLIP:
            say(
                f"{file.name} plays for {clock_time(caption.duration or 0.0)}, and one sentence is for short clips: "
                "--every 10 gives one every 10 seconds, --scenes one for each scene"
            )

    def _log(self, line: str) -> None:
        """A line now and then where there is no terminal to show a bar on."""
        if self.log and not console.is_terminal and time.monotonic() - self._told > LOG:
            self._told = time.monotonic()
            say(line)
