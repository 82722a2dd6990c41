"""Decode thousands of damaged files and check that none of them harms the process that asked.

    python benchmarks/fuzz.py                              # 10,000 files, 2 workers, at most an hour
    python benchmarks/fuzz.py --files 200 --seed 7 --out ''

The seeds are small real files from the research data, where it is there, and files made here in many codecs and
containers. Each of the files is one of them with bits flipped, cut, spliced, with a foreign header, … and goes through
`hoca.media.Decoders`, as in extraction. Every one has to end in pictures and sound that are whole, or in one line that
names the file; none may take longer than the limits allow; and in the end there must be no more memory, descriptors,
processes or shared memory in use than after the first two hundred files. What breaks that is kept and named, and the
exit code is 1. Counts per kind of damage go to results/fuzz.csv. The same command resumes a run that was stopped.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from fuzz_files import DAMAGES, Seed, made_seeds, real_seeds

from hoca import media
from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {
    "image": media.Pictures(media.Spread(20), (260, 260)),
    "motion": media.Pictures(media.First(32, least=16), (224, 224), "area"),
}
LIMITS = media.DecodeLimits(bytes=2**26, seconds=600, pixels=2**22, frames=5000, decode_seconds=10, memory=2**30)
SLOWEST = LIMITS.decode_seconds + 8  # start of a worker and the grace in which one that hangs is ended
ROUND = 200  # files between notes of progress; after the first of them nothing should grow any more
OUTCOMES = ("decoded", "with damage", "refused", "crashed", "out of time", "out of memory")


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        seeds = [*made_seeds(Path(folder)), *real_seeds(options.data)]
        print(f"{len(seeds)} seeds, {options.files} files, {options.workers} workers, seed {options.seed}", flush=True)
        run = Run(options, seeds, Path(folder))
        run.resume()
        run.decode_all()
    run.report()
    sys.exit(1 if run.problems else 0)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600, help="stop after this time, however many are done")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data")))
    parser.add_argument("--progress", type=Path, default=Path("fuzz-progress.json"), help="where a run resumes from")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-problems"), help="where files that break a rule go")
    parser.add_argument("--out", default=str(ROOT / "results" / "fuzz.csv"), help="'' writes no table")
    return parser.parse_args()


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0


@dataclass(frozen=True)
class Use:
    """What this process holds."""

    memory: int  # bytes
    descriptors: int
    processes: int
    shared: int  # arrays in the memory of workers

    @classmethod
    def now(cls) -> Use:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        tasks = Path("/proc/self/task").glob("*/children")
        return cls(
            pages * os.sysconf("SC_PAGESIZE"),
            len(os.listdir("/proc/self/fd")),
            sum(len(task.read_text().split()) for task in tasks),
            Path("/proc/self/maps").read_text().count("memfd:hoca"),
        )


class Run:
    def __init__(self, options: argparse.Namespace, seeds: list[Seed], folder: Path) -> None:
        self.options, self.seeds, self.folder = options, seeds, folder
        self.tallies = {damage.__name__: Tally() for damage in DAMAGES}
        self.problems: list[str] = []
        self.started: dict[Path, float] = {}
        self.done = 0
        self.grown = 0  # bytes, at most, in any part of the run
        self.spent = 0.0  # seconds of the parts before this one
        self.begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.begun

    def resume(self) -> None:
        """Take over what a run with the same seeds has written down."""
        if not self.options.progress.is_file():
            return
        kept = json.loads(self.options.progress.read_text())
        if kept["of"] != self.identity():
            sys.exit(f"{self.options.progress} is of a run with other settings: delete it, or give another --progress")
        self.done, self.problems, self.grown, self.spent = (kept[key] for key in ("done", "problems", "grown", "spent"))
        for name, (outcomes, slowest) in kept["tallies"].items():
            self.tallies[name] = Tally(Counter(outcomes), slowest)
        print(f"resuming after {self.done} files", flush=True)

    def write_progress(self) -> None:
        tallies = {name: (tally.outcomes, tally.slowest) for name, tally in self.tallies.items()}
        facts = {"done": self.done, "problems": self.problems, "grown": self.grown, "spent": self.seconds}
        with replacing(self.options.progress) as temporary:
            temporary.write_text(json.dumps({"of": self.identity(), "tallies": tallies} | facts))

    def identity(self) -> list[object]:
        return [self.options.seed, [name for name, _ in self.seeds]]

    def decode_all(self) -> None:
        before = Use.now()
        warm = None
        with media.Decoders(self.options.workers, LIMITS) as decoders:
            while self.done < self.options.files and self.seconds < self.options.seconds:
                first, last = self.done, min(self.done + ROUND, self.options.files)
                for request, answer in decoders.map(self.requests(range(first, last))):
                    self.judge(request.path, answer)
                    del answer
                    self.done += 1
                warm = warm or Use.now()
                self.grown = max(self.grown, Use.now().memory - warm.memory)
                self.write_progress()
                print(f"{self.done} files, {self.seconds:.0f} s", flush=True)
        self.compare(before, Use.now())

    def requests(self, numbers: range) -> Iterator[media.Request]:
        for number in numbers:
            chance = random.Random(f"{self.options.seed}-{number}")
            name, content = chance.choice(self.seeds)
            damage = DAMAGES[number % len(DAMAGES)]
            path = self.folder / f"{number}-{damage.__name__}-{name}"
            path.write_bytes(damage(bytearray(content), chance.choice(self.seeds)[1], chance))
            self.started[path] = time.monotonic()
            yield media.Request(path, PICTURES, 22050)

    def judge(self, path: Path, answer: media.DecodedVideo | media.Failure) -> None:
        tally = self.tallies[path.name.split("-")[1]]
        # Up to two files a worker are ahead of this one, so that the wait may be that of several.
        seconds = time.monotonic() - self.started.pop(path)
        tally.slowest = max(tally.slowest, seconds)
        if isinstance(answer, media.Failure):
            outcome = outcome_of(answer.reason)
            ours = re.search(r": \w+Error: ", answer.reason)  # a mistake of this program, not of the file
            fine = path.name in answer.reason and answer.reason.isprintable() and not ours
            problem = "" if fine else repr(answer.reason)
        else:
            outcome = "with damage" if answer.damage else "decoded"
            problem = flaw(answer)
        if seconds > 2 * SLOWEST:
            problem = problem or f"took {seconds:.0f} s"
        tally.outcomes[outcome] += 1
        if problem:
            self.options.keep.mkdir(exist_ok=True)
            (self.options.keep / path.name).write_bytes(path.read_bytes())
            self.problems.append(f"{path.name}: {problem}")
        path.unlink()

    def compare(self, before: Use, after: Use) -> None:
        self.growth = f"{self.grown / 2**20:+.1f} MiB"
        print(f"memory of this process after its first {ROUND} files: at most {self.growth}")
        for name in ("descriptors", "processes", "shared"):
            print(f"{name}, before and after: {getattr(before, name)}, {getattr(after, name)}")
            if getattr(after, name) > getattr(before, name):
                self.problems.append(f"more {name} than before: {before}, {after}")
        if self.grown > 64 * 2**20:
            self.problems.append(f"the process grew by {self.growth}")

    def report(self) -> None:
        import av

        seconds = self.seconds
        rows = []
        total: Counter[str] = Counter()
        for name, tally in self.tallies.items():
            total += tally.outcomes
            rows.append([name, sum(tally.outcomes.values()), *(tally.outcomes[each] for each in OUTCOMES)])
        rows.append(["all", self.done, *(total[each] for each in OUTCOMES)])
        print(f"{'damage':16}" + "".join(f"{each:>14}" for each in ("files", *OUTCOMES)))
        for row in rows:
            print(f"{row[0]:16}" + "".join(f"{each:14}" for each in row[1:]))
        slowest = max(tally.slowest for tally in self.tallies.values())
        print(
            f"{self.done} files in {seconds:.0f} s, longest wait for one {slowest:.1f} s, {len(self.problems)} problems"
        )
        for problem in self.problems:
            print(f"PROBLEM {problem}")
        if self.done < self.options.files:
            print(f"stopped after {self.options.seconds:g} s: {self.options.files - self.done} files were not tried")
        else:
            self.options.progress.unlink(missing_ok=True)
        if self.options.out:
            with replacing(Path(self.options.out)) as temporary, temporary.open("w", newline="") as file:
                table = csv.writer(file)
                table.writerow(["damage", "files", *OUTCOMES, "problems", "seeds", "seed", "pyav", "memory_growth"])
                for row in rows:
                    rest = [len(self.problems), len(self.seeds), self.options.seed, av.__version__, self.growth]
                    table.writerow([*row, *(rest if row[0] == "all" else [""] * len(rest))])


def outcome_of(reason: str) -> str:
    if "made its decoder" in reason:
        return "crashed"
    if "longer to decode" in reason:
        return "out of time"
    return "out of memory" if "more memory" in reason else "refused"


def flaw(answer: media.DecodedVideo) -> str:
    """What is wrong with a result; "" if it is what was asked for."""
    if not answer.pictures and answer.waveform is None:
        return "neither picture nor sound"
    if answer.pictures:
        image, motion = answer.pictures["image"], answer.pictures["motion"]
        if image.shape != (20, 260, 260, 3) or image.dtype != np.uint8:
            return f"image {image.dtype} {image.shape}"
        if motion.shape != (max(16, min(answer.frames, 32)), 224, 224, 3):
            return f"motion {motion.shape} of {answer.frames} frames"
        if not all(np.isfinite(times).all() for times in answer.times.values()):
            return "times that are no numbers"
    elif "picture" not in answer.absent:
        return "no picture and no reason"
    if answer.waveform is None:
        return "" if "sound" in answer.absent else "no sound and no reason"
    return "" if np.isfinite(answer.waveform).all() else "sound that is no number"


if __name__ == "__main__":
    main()
