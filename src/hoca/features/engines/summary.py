"""What became of each video of an extraction: lines while it runs, a table at its end, and the same as CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from hoca.features.engines.videos import VideoFile
from hoca.files import printable, replacing

Status = Literal["done", "skipped", "failed"]
SAID = {"audio": "sound"}
COLUMNS = ("id", "video", "status", "why", "absent", "duration")


class Outcome(NamedTuple):
    video: VideoFile
    status: Status
    why: str = ""  # of a failure: one line
    absent: Mapping[str, str] = MappingProxyType({})  # modality → why
    duration: float | None = None  # seconds of video


class Summary:
    """The outcomes of a run, in the order in which they came."""

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.outcomes = list(outcomes)

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]

    def counts(self) -> dict[str, int]:
        """How many videos were done, skipped and failed; and of those that have features, lack which modality."""
        status = Counter(outcome.status for outcome in self.outcomes)
        absent = Counter(name for outcome in self.outcomes for name in outcome.absent if outcome.status != "failed")
        without = {f"without {SAID.get(name, name)}": count for name, count in sorted(absent.items())}
        return {"done": status["done"], "skipped": status["skipped"], **without, "failed": status["failed"]}

    def table(self) -> str:
        """The counts, with the reasons of what is missing or failed, most frequent first."""
        counts, reasons = self.counts(), self._reasons()
        number, name = len(str(max(counts.values()))), max(map(len, counts))
        lines = []
        for what, count in counts.items():
            why = "; ".join(f"{text} ({times})" for text, times in reasons.get(what, Counter()).most_common(5))
            lines.append(f"{count:{number}}  {what:{name}}  {why}".rstrip())
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """One row per video."""
        with (
            replacing(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for outcome in self.outcomes:
                absent = "; ".join([f"{name}: {why}" for name, why in outcome.absent.items()]) if outcome.absent else ""
                duration = "" if outcome.duration is None else f"{outcome.duration:.3f}"
                video = outcome.video
                writer.writerow(
                    (printable(video.id), printable(video.file), outcome.status, outcome.why, absent, duration)
                )

    def _reasons(self) -> dict[str, Counter[str]]:
        reasons: dict[str, Counter[str]] = {}
        for outcome in self.outcomes:
            if outcome.status == "failed":
                why = outcome.why.removeprefix(printable(outcome.video.file)).lstrip(": ")  # several may share it
                reasons.setdefault("failed", Counter())[why] += 1
                continue
            for name, why in outcome.absent.items():
                reasons.setdefault(f"without {SAID.get(name, name)}", Counter())[why] += 1
        return reasons
