"""Kill hoca at random moments, take its disk and its clock away, and see that nothing is lost.

    python benchmarks/kills.py                  # 50 of training, 50 of extraction, 20 of assets pull, … -> results/
    python benchmarks/kills.py --share 0.1      # a tenth of them
    python benchmarks/kills.py --trial training
    python benchmarks/kills.py --trial "training on a GPU" --places 8

Every trial ends as if nothing had happened: training with the same bits on a CPU and the same losses on a GPU (left out
where there is none), extraction with the same bytes of every file, assets with the file that was pinned, clips on a Ray
cluster exactly once. The bad days (a full disk, a folder
that may not be written, a clock set back, a spoilt checkpoint) cost one line each, and the same command then goes on.
A row of the table stays until its trial is repeated. The full disk needs the right to mount one.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import forked

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the small datasets and clips are those of the tests
Command = tuple[object, ...]
ON_GPU = "training on a GPU"
SAME_LOSS = 1e-3  # relative, on a GPU
WAIT = os.WEXITED | os.WNOHANG | os.WNOWAIT  # whether a process has ended


@dataclass
class Trial:
    name: str
    kills: int = 0
    ends: int = 0  # times that the work came to its end and was compared
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main() -> None:
    options = parse_options()
    forked.ready()
    trials = []
    for name, (_, kills) in TRIALS.items():
        if name in options.trial if options.trial else name != ON_GPU or forked.gpu():
            trials.append(side_by_side(name, max(1, round(kills * options.share)), options.places, options.seed))
            report(trials[-1], options.out)
    print(options.out.read_text(encoding="utf-8"), end="")
    sys.exit(any(trial.problems for trial in trials))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trial", choices=[*TRIALS], action="append", help="may be repeated")
    parser.add_argument("--share", type=float, default=1.0, help="of the kills of each trial")
    parser.add_argument("--places", type=int, default=1, help="among which the kills of each trial are divided")
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kills.csv")
    return parser.parse_args()


def side_by_side(name: str, kills: int, places: int, seed: int) -> Trial:
    """A trial in several places at once, in a process each, as one."""
    shares = [share for place in range(places) if (share := (kills + place) // places)]
    if len(shares) == 1:
        return tried(name, kills, seed)
    with ProcessPoolExecutor(len(shares), get_context("fork")) as pool:
        parts = list(pool.map(tried, repeat(name), shares, range(seed, seed + len(shares))))
    problems = [problem for part in parts for problem in part.problems]
    kills, ends = sum(part.kills for part in parts), sum(part.ends for part in parts)
    return Trial(name, kills, ends, problems, max(part.seconds for part in parts))


def tried(name: str, kills: int, seed: int) -> Trial:
    trial, begun = Trial(name), time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            TRIALS[name][0](trial, kills, Path(folder), random.Random(seed))
    except Exception as error:
        trial.problems.append(f"{type(error).__name__}: {error}")
    trial.seconds = time.monotonic() - begun
    print(f"{name}: {trial.kills} kills, {trial.ends} ends, {trial.seconds:.0f} s", flush=True)
    for problem in trial.problems:
        print(f"PROBLEM {name}: {problem}", flush=True)
    return trial


def finish(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def killed(process: int, delay: float) -> bool:
    """Kill the process and what it started after so many seconds; False if it had ended."""
    end = time.monotonic() + delay
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError(f"it ended by itself with status {os.waitstatus_to_exitcode(status)}")
            return False
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def undisturbed(command: Command, folder: Path) -> float:
    """Run a command to its end; how many seconds it took."""
    begun = time.monotonic()
    status = finish(forked.start(command, folder, folder / "whole"))
    if status:
        raise RuntimeError(f"undisturbed: status {status}: {(folder / 'whole.err').read_text()[-300:]}")
    return time.monotonic() - begun


def again_and_again(
    trial: Trial,
    kills: int,
    command: Callable[[Path], Command],
    folder: Path,
    whole: float,
    compare: Callable[[Path], str],
    chance: random.Random,
    progress: Callable[[Path], float] = lambda place: time.monotonic(),
) -> None:
    """Start the command in a place and kill it, until it has come to its end there; then in the next place.

    Each is killed at a random moment after it has made some `progress`. Once the last kill is done it runs to its end.
    """
    number = 0
    while True:
        place = folder / f"place-{number}"
        before = progress(place)
        process = forked.start(command(place), folder, folder / "killed")
        if trial.kills >= kills:
            status = finish(process)
            if status:
                said = (folder / "killed.err").read_text()[-300:]
                trial.problems.append(f"after {trial.kills} kills: status {status}: {said}")
        else:
            while progress(place) <= before and os.waitid(os.P_PID, process, WAIT) is None:
                time.sleep(0.002)
            if killed(process, chance.uniform(0, whole / 4)):
                trial.kills += 1
                if trial.kills % 10 == 0:
                    print(f"{trial.name}: {trial.kills} of {kills} kills", flush=True)
                continue
        if problem := compare(place):
            trial.problems.append(f"{place.name}: {problem}")
        trial.ends += 1
        number += 1
        if trial.kills >= kills:
            return


def training(trial: Trial, kills: int, folder: Path, chance: random.Random) -> None:
    from tests.training.test_resume import assert_same_run

    def same_bits(run: Path, reference: Path) -> str:
        try:
            assert_same_run(run, reference)
        except AssertionError as error:
            return f"other bits than undisturbed: {str(error)[:200]}"
        return ""

    train_and_kill(trial, kills, folder, chance, same_bits)


def training_on_a_gpu(trial: Trial, kills: int, folder: Path, chance: random.Random) -> None:
    """Sums are made in any order there: losses are compared, and the rate is such that rounding does not grow."""
    from tests.training.tiny import column

    def same_losses(run: Path, reference: Path) -> str:
        pairs = list(zip(column(run, "loss"), column(reference, "loss"), strict=True))
        print(f"{trial.name}: losses within {max(abs(mine / other - 1) for mine, other in pairs):.1g}", flush=True)
        close = all(math.isclose(*pair, rel_tol=SAME_LOSS) for pair in pairs)
        return "" if close else f"other losses than undisturbed: {pairs}"

    train_and_kill(trial, kills, folder, chance, same_losses, device="cuda", learning_rate=1e-3)


def train_and_kill(
    trial: Trial,
    kills: int,
    folder: Path,
    chance: random.Random,
    same: Callable[[Path, Path], str],
    **changes: object,
) -> None:
    from hoca.checkpoint import Checkpoints
    from tests.training.tiny import tiny_file, write_dataset

    data = write_dataset(folder / "data")
    settings = {"batch_size": 4, "captions_per_video": 1, "epochs": 2, "checkpoint_every": 1, "ema_decay": 0.8}

    def command(run: Path) -> Command:
        return "train", tiny_file(folder, data, run, **settings | changes), "--resume"

    def compare(run: Path) -> str:
        left = [path.name for path in run.rglob("*.tmp")]
        return same(run, folder / "reference") or (f"left behind: {left}" if left else "")

    def steps(run: Path) -> int:
        newest = Checkpoints(run).newest()
        return int(newest[0].stem.removeprefix("step-")) if newest else 0

    if "device" in changes:
        undisturbed(command(folder / "first"), folder)  # compiles kernels: no measure of the time that a run takes
    whole = undisturbed(command(folder / "reference"), folder)
    again_and_again(trial, kills, command, folder, whole, compare, chance, steps)


def extraction(trial: Trial, kills: int, folder: Path, chance: random.Random) -> None:
    from tests.features.engines.clips import LIGHT, write_clip

    for number in range(12):
        write_clip(folder / "clips" / f"v{number}.mp4", seed=number % 3)

    def command(store: Path) -> Command:
        return "extract", folder / "clips", "--out", store, *LIGHT, "--workers", 1

    def content(store: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in store.glob("*.safetensors")}

    whole = undisturbed(command(folder / "reference"), folder)
    reference = content(folder / "reference")
    again_and_again(
        trial,
        kills,
        command,
        folder,
        whole,
        lambda store: "" if content(store) == reference else "other bytes than undisturbed",
        chance,
        lambda store: len(content(store)),
    )


def assets(trial: Trial, kills: int, folder: Path, chance: random.Random) -> None:
    from kills_index import served

    from hoca.assets import cache, verify

    with served(folder) as (home, archive):

        def command(place: Path) -> Command:
            home(place)
            return "assets", "pull", "toy"

        def compare(place: Path) -> str:
            home(place)
            left = {path.name for path in cache.folder().iterdir()} - {".toy.lock"}
            if not verify("toy"):
                return "another file than the pinned one"
            return f"left behind: {left}" if len(left) != 2 or archive in left else ""

        whole = undisturbed(command(folder / "reference"), folder)
        again_and_again(trial, kills, command, folder, whole, compare, chance)


def bad_days(trial: Trial, kills: int, folder: Path, chance: random.Random) -> None:
    from kills_days import DAYS

    for name, day in DAYS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()
        try:
            problem = day(place)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        trial.ends += 1
        if problem:
            trial.problems.append(f"{name}: {problem}")


def ray(trial: Trial, kills: int, folder: Path, chance: random.Random) -> None:
    from kills_cluster import extract_and_kill

    trial.kills, trial.problems = extract_and_kill(folder)
    trial.ends = 1


TRIALS: dict[str, tuple[Callable[..., None], int]] = {
    "training": (training, 50),
    ON_GPU: (training_on_a_gpu, 50),
    "extraction": (extraction, 50),
    "assets": (assets, 20),
    "bad days": (bad_days, 0),
    "ray": (ray, 0),  # which kills three; last: what starts a cluster has threads
}


def report(trial: Trial, out: Path) -> None:
    """Put the trial's row in its place in the table."""
    from hoca.files import replacing

    rows = {}
    if out.is_file():
        with open(out, newline="", encoding="utf-8") as file:
            rows = {row["trial"]: row for row in csv.DictReader(file)}
    numbers = {"kills": trial.kills, "ends": trial.ends, "problems": len(trial.problems)}
    rows[trial.name] = {"trial": trial.name, **numbers, "seconds": f"{trial.seconds:.0f}"}
    with replacing(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["trial", "kills", "ends", "problems", "seconds"], lineterminator="\n")
        table.writeheader()
        table.writerows(rows[name] for name in TRIALS if name in rows)


if __name__ == "__main__":
    main()
