"""Give hostile files and requests to hoca, one at a time, and see that each ends in a result or in one line.

    python benchmarks/adversary.py                 # all of them -> results/adversary.csv
    python benchmarks/adversary.py --every 20      # each twentieth, without a server
    python benchmarks/adversary.py --kind hdf5

Each file is given to the command of hoca that reads such files, in a process of its own with limits on memory and time.
A case breaks the rule if it ends in anything but a result (exit code 0) or one line (exit code 2), takes more memory or
time than it may, runs code of the file, or leaves a process or a temporary file behind. `web` are requests to
`hoca serve`. Whatever breaks the rule is named, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import forked

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the tables of cases are those of the tests
MEMORY = 6 << 30  # bytes of address space beyond what the process has when a case begins
RESIDENT = 2 << 30  # bytes that it, or a process that it starts, may really take
SECONDS = 120.0
LONGEST = 2000  # characters of a complaint
MARK = "HOCA_ADVERSARY"  # in the environment of whatever a case starts
KINDS = ("media", "checkpoint", "weights", "data", "hdf5", "recipe", "vectors", "web")


@dataclass(frozen=True)
class Outcome:
    kind: str
    name: str
    result: bool  # or refused
    problem: str
    seconds: float
    mebibytes: float  # at most, of the process or of one that it started


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="adversary-") as name:
        folder = Path(name)
        from adversary_cases import Whole, cases

        whole = Whole(*prepare(folder))
        print("preparing the cases", flush=True)
        chosen = [case for case in cases(whole, folder) if options.kind in (None, case.kind)][:: options.every]
        outcomes = []
        for number, case in enumerate(chosen, start=1):
            outcomes.append(run(case, folder))
            if outcomes[-1].problem:
                print(f"PROBLEM {case.kind}: {case.name!r}: {outcomes[-1].problem}", flush=True)
            if number % 25 == 0:
                print(f"{number} of {len(chosen)} cases", flush=True)
        if options.kind in (None, "web") and options.every == 1:
            from adversary_web import probes

            outcomes += probes(whole.run, whole.clip, folder)
    report(outcomes, options.out)
    sys.exit(any(outcome.problem for outcome in outcomes))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--every", type=int, default=1, help="try each so many-th case")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "adversary.csv")
    return parser.parse_args()


def prepare(folder: Path) -> tuple[Path, Path, Path]:
    """A small model of clips, a clip, a dataset; all that a case needs is imported before the first one starts."""
    forked.ready()
    from tests.explain import trained
    from tests.training.tiny import write_dataset

    clips = trained.prepare(folder / "clips")
    run = trained.fit(clips, folder / "model", epochs=2)
    return run, trained.clips(clips, silent=False)[0], write_dataset(folder / "data")


def run(case, folder: Path) -> Outcome:  # type: ignore[no-untyped-def]  # a case, whose module is imported late
    place = folder / "case"
    work, temporary = place / "work", place / "tmp"
    for each in (work, temporary):
        each.mkdir(parents=True)
    try:
        case.prepare(work)
        status, seconds, used = attempt(case.command, place)
        said = (place / "log.err").read_text(errors="surrogateescape")
        left = [f"a process ({each})" for each in processes(MARK)]
        left += [path.name for path in temporary.iterdir()]
        left += [str(path.relative_to(work)) for path in work.rglob("*.tmp")]
        problem = judge(status, said, seconds, used, case.lines)
        problem = problem or ("code of the file ran" if (work / "it-ran").exists() else "")
        problem = problem or (f"left behind: {', '.join(left[:3])}" if left else "")
        return Outcome(case.kind, case.name, status == 0, problem, seconds, used / 2**20)
    finally:
        shutil.rmtree(place)


def attempt(command: tuple[str, ...], place: Path) -> tuple[int, float, int]:
    """Exit code (minus the signal that ended it), seconds, and bytes at most of it and of what it started."""
    begun = time.monotonic()
    environment = {"TMPDIR": str(place / "tmp"), "HOCA_HOME": str(place / "home"), MARK: str(place)}
    process = forked.start(command, place / "work", place / "log", environment, limit)
    usage = None
    while usage is None:
        done, status, rusage = os.wait4(process, os.WNOHANG)
        if done:
            usage = rusage
        elif time.monotonic() - begun > SECONDS:
            os.killpg(process, signal.SIGKILL)
            _, status, usage = os.wait4(process, 0)
        else:
            time.sleep(0.01)
    return os.waitstatus_to_exitcode(status), time.monotonic() - begun, usage.ru_maxrss * 1024


def limit() -> None:
    """Hold this process to its memory, from here on."""
    addresses = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + MEMORY, addresses + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def processes(mark: str, seconds: float = 5.0) -> list[str]:
    """Processes that a case has started and that do not end."""
    end = time.monotonic() + seconds
    while True:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{mark}=".encode() in (place / "environ").read_bytes() and int(place.name) != os.getpid():
                    found.append(place.name)
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.1)


def judge(status: int, said: str, seconds: float, used: int, most: int = 1) -> str:
    """What is wrong with how a case ended; "" if nothing is."""
    lines = said.strip().splitlines()
    if status == -signal.SIGKILL and seconds >= SECONDS:
        return f"it took longer than {SECONDS:g} s"
    if used > RESIDENT:
        return f"it took {used >> 20} MiB"
    if "Traceback" in said or status not in ((0, 2) if most == 1 else (0, 1, 2)):
        return f"status {status}: {lines[-1] if lines else 'nothing said'}"
    if status and (not 1 <= len(lines) <= most or not lines[0].startswith("hoca: ")):
        return f"{len(lines)} lines instead of {most}: {lines[:2]}"
    if status and (len(lines[0]) > LONGEST or not lines[0].isprintable()):
        return f"a line of {len(lines[0])} characters: {lines[0][:80]!r}"
    return ""


def report(outcomes: list[Outcome], out: Path) -> None:
    from hoca.files import replacing

    rows = []
    for kind in (*KINDS, "all"):
        mine = [each for each in outcomes if kind in (each.kind, "all")]
        if mine:
            results = sum(each.result for each in mine)
            broken = sum(bool(each.problem) for each in mine)
            slowest, most = max(each.seconds for each in mine), max(each.mebibytes for each in mine)
            rows.append([kind, len(mine), results, len(mine) - results, broken, f"{slowest:.1f}", f"{most:.0f}"])
    with replacing(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["kind", "cases", "results", "refused", "problems", "slowest_s", "most_mib"])
        table.writerows(rows)
    print(out.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
