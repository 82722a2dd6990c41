"""Plant faults in a copy of the repository, one at a time, and see which of them the tests notice.

    python benchmarks/mutants.py                                     # all faults of mutants.yaml
    python benchmarks/mutants.py --only 'training/*' --jobs 2        # those of some files, two at a time
    python benchmarks/mutants.py --only 'beam*' --again              # by name, also what is known already

Each fault names the tests that should notice it. They run without the research data, after a run without any fault
that they have to pass; a test that hangs has noticed. The rows go to results/mutants.csv as they come: a row stays
until its fault, the file that the fault is in or one of its tests changes. The exit code is 1 if less than 95 % of the
faults are noticed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import yaml

from hoca.files import replacing
from hoca.progress import say, track

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("mutants.yaml")
COPIED = ("src", "tests", "benchmarks", "docs", "results", "Makefile", "pyproject.toml", "README.md")
COLUMNS = ("name", "area", "file", "noticed", "seconds", "tests", "hash")
ENOUGH = 0.95
LONGEST = 3600.0  # seconds, of all tests together without a fault
HANGS = 400.0  # seconds after which tests with a fault have noticed it

Tests = tuple[str, ...]
Row = dict[str, str]


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str  # in src/hoca
    old: str  # occurs in the file once
    new: str
    tests: Tests  # files or folders in tests/
    wrong: str  # what goes wrong

    @property
    def area(self) -> str:
        folder, slash, _ = self.file.partition("/")
        return folder if slash else "others"

    def source(self, root: Path) -> Path:
        return root / "src" / "hoca" / self.file

    def complaint(self, root: Path) -> str | None:
        """Why it cannot be planted there or tried, or None."""
        if not self.source(root).is_file():
            return f"there is no src/hoca/{self.file}"
        text = self.source(root).read_text(encoding="utf-8")
        if (times := text.count(self.old)) != 1:
            return f"`old` occurs {times} times in src/hoca/{self.file}, once is wanted"
        try:
            compile(text.replace(self.old, self.new), self.file, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"`new` leaves no Python ({error})"
        missing = [test for test in self.tests if not (root / "tests" / test).exists()]
        return f"there is no tests/{missing[0]}" if missing else None

    def fingerprint(self, root: Path) -> str:
        """Of all that decides its row: the fault, the file it is in, its tests."""
        parts = [repr(self).encode(), self.source(root).read_bytes()]
        for test in self.tests:
            place = root / "tests" / test
            parts += [file.read_bytes() for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]

    def holds(self, table: Mapping[str, Row], root: Path) -> bool:
        """Whether the table tells already what the tests make of it."""
        return self.name in table and table[self.name]["hash"] == self.fingerprint(root)


def main() -> None:
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # as Ctrl-C: no test and no copy is left behind
    mutants = read_list(LIST)
    chosen = [each for each in mutants if fnmatch(each.name, options.only) or fnmatch(each.file, options.only)]
    if not chosen:
        sys.exit(f"no fault in {LIST.name} has a name or a file like {options.only!r}")
    if complaints := [f"{each.name}: {why}" for each in chosen if (why := each.complaint(ROOT))]:
        sys.exit("\n".join(complaints))
    known = read_table(options.out)
    table = {each.name: known[each.name] for each in mutants if each.name in known}
    for row in examine(ROOT, [each for each in chosen if options.again or not each.holds(table, ROOT)], options.jobs):
        table[row["name"]] = row
        write_table(options.out, [table[each.name] for each in mutants if each.name in table])
    rows = [table[each.name] for each in chosen]
    print(summary(chosen, rows))
    sys.exit(0 if share(rows) >= ENOUGH else 1)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="faults whose name or file is like this")
    parser.add_argument("--jobs", type=int, default=1, help="faults that are tried at once")
    parser.add_argument("--again", action="store_true", help="try also what is known already")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutants.csv")
    return parser.parse_args()


def read_list(path: Path) -> list[Mutant]:
    mutants = [Mutant(**each | {"tests": tuple(each["tests"])}) for each in yaml.safe_load(path.read_text("utf-8"))]
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        sys.exit(f"{path.name}: two faults are called {twice[0]!r}")
    return mutants


def examine(root: Path, mutants: Sequence[Mutant], jobs: int = 1) -> Iterator[Row]:
    """Try the faults, and give the row of each as it is known."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copies = [copied(root, Path(folder) / str(number)) for number in range(min(jobs, len(mutants)))]
        named = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        parts = [tuple(named[number :: len(copies)]) for number in range(len(copies))]
        for trial in track(tried(((tests, None, LONGEST) for tests in parts), copies), total=len(parts), what="tests"):
            if trial.noticed:
                sys.exit(f"without a fault, these tests do not pass: {' '.join(trial.tests)}\n{trial.output}")
        planned = ((mutant.tests, mutant, HANGS) for mutant in mutants)
        for trial in track(tried(planned, copies), total=len(mutants), what="faults"):
            mutant = trial.mutant
            assert mutant is not None
            if not trial.noticed:
                say(f"survived: {mutant.name}")
            yield {
                **{"name": mutant.name, "area": mutant.area, "file": mutant.file},
                **{"noticed": "yes" if trial.noticed else "no", "seconds": f"{trial.seconds:.1f}"},
                **{"tests": " ".join(mutant.tests), "hash": mutant.fingerprint(trial.copy)},
            }


def copied(root: Path, folder: Path) -> Path:
    """What the tests need of the repository, in `folder`."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).is_file():
            folder.mkdir(exist_ok=True)
            shutil.copy2(root / name, folder)
    return folder


@contextmanager
def planted(mutant: Mutant, root: Path) -> Iterator[None]:
    """The fault is in the file within the block, and gone after it."""
    file = mutant.source(root)
    before = file.read_bytes()
    file.write_bytes(before.replace(mutant.old.encode(), mutant.new.encode()))
    try:
        yield
    finally:
        file.write_bytes(before)


class Trial:
    """Tests that run in a copy of the repository, with a fault planted in it or none."""

    def __init__(self, copy: Path, tests: Tests, mutant: Mutant | None, limit: float) -> None:
        self.copy, self.tests, self.mutant, self.limit = copy, tests, mutant, limit
        self.code: int | None = None  # of pytest; None: it ran out of time
        self.output = ""
        self._open = ExitStack()
        if mutant is not None:
            self._open.enter_context(planted(mutant, copy))
        place = tempfile.TemporaryDirectory(dir=copy, prefix="tmp", ignore_cleanup_errors=True)
        self._log = Path(self._open.enter_context(place)) / "log"
        environment = {
            "PYTHONPATH": str(copy / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",  # two faults of one size within a second would share a .pyc
            "OMP_NUM_THREADS": "1",
            "HOCA_DATA": str(copy / "no research data"),
            "TMPDIR": place.name,
            "HYPOTHESIS_STORAGE_DIRECTORY": place.name,  # what one fault taught Hypothesis is not for the next
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        self._begun = time.monotonic()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*command, *(f"tests/{test}" for test in tests)],
                cwd=copy,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def noticed(self) -> bool:
        return self.code != 0

    def running(self) -> bool:
        self.seconds = time.monotonic() - self._begun
        self.code = self._process.poll()
        return self.code is None and self.seconds < self.limit

    def end(self) -> None:
        """Leave the copy as it was, and no process behind."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.output = self._log.read_text(encoding="utf-8", errors="replace")[-3000:]
        self._open.close()


def tried(planned: Iterable[tuple[Tests, Mutant | None, float]], copies: Sequence[Path]) -> Iterator[Trial]:
    """Trials as they end, one at a time in each copy."""
    waiting, free, running = list(planned), list(copies), list[Trial]()
    try:
        while waiting or running:
            while waiting and free:
                running.append(Trial(free.pop(), *waiting.pop(0)))
            ended = [trial for trial in running if not trial.running()]
            for trial in ended:
                running.remove(trial)
                trial.end()
                free.append(trial.copy)
            yield from ended
            if not ended:
                time.sleep(0.05)
    finally:
        for trial in running:
            trial.end()


def read_table(path: Path) -> dict[str, Row]:
    if not path.is_file():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def write_table(path: Path, rows: Iterable[Row]) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def share(rows: Sequence[Row]) -> float:
    return sum(row["noticed"] == "yes" for row in rows) / len(rows)


def summary(mutants: Sequence[Mutant], rows: Sequence[Row]) -> str:
    """Who survived, and the share that was noticed, by area."""
    lines = [
        f"survived: {mutant.name} ({mutant.file}): {mutant.wrong}"
        for mutant, row in zip(mutants, rows, strict=True)
        if row["noticed"] == "no"
    ]
    areas = {area: [row for row in rows if row["area"] == area] for area in dict.fromkeys(row["area"] for row in rows)}
    for area, own in (areas | {"all": list(rows)}).items():
        noticed = sum(row["noticed"] == "yes" for row in own)
        lines.append(f"{area:12} {noticed:3} of {len(own):3} noticed, {share(own):4.0%}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
