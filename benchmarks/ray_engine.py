"""What `hoca extract --engine ray` reaches beside the local engine, and what its coordinator spends on a video.

    python benchmarks/ray_engine.py                                    # five minutes; results/ray-engine.csv
    python benchmarks/ray_engine.py --clips 4 --rounds 1 --videos 20 60 --workers 1 --image light-image

`throughput` rows: the same clips by each engine, on one core and on all, in turn. Each run is a process of its own that
may use so many cores, with a Ray of its own that has as many workers, of one core each. `rate` is clips a second from
the first file in the store to the last, the median of the rounds: without start-up, which `seconds` has. `of_local` is
the rate beside that of the local engine on as many cores, `efficiency` a core's rate beside that on one core.

`coordinator` rows: milliseconds of the processor for a further video, in the process of `hoca extract --engine ray`
(`driver_ms`) and in Ray's control service (`control_ms`): the difference of two numbers of tiny videos, which hardly
need a worker. All else runs on the machines of the workers. So many workers as `feeds` says, at one clip a second each,
keep a core of the busier of the two processes busy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from hoca import media
from hoca.bench import Row, conditions, write_rows
from hoca.bench.extract import clips_of
from hoca.bench.processes import run_python
from hoca.features import FeatureStore, specify
from hoca.features.engines import Engine, ExtractionSettings, extract_all
from hoca.progress import say
from hoca.threads import cores

RESULTS = Path(__file__).resolve().parent.parent / "results" / "ray-engine.csv"
KEYS = ("kind", "engine", "cores", "workers")
OBJECTS = 200 * 2**20  # bytes of Ray's store of objects
TINY = "light-image"  # features without a network


@dataclass(frozen=True)
class Run:
    """One extraction, in a process of its own."""

    engine: Engine
    cores: int
    workers: int
    videos: str  # a folder
    image: str  # the backbone

    def measure(self) -> dict[str, float]:
        with TemporaryDirectory() as store:
            given = json.dumps(asdict(self) | {"store": store})
            measured: dict[str, float] = run_python([__file__, "--one", given]).said
        say(f"{self.engine}, {self.cores} cores, {self.workers} workers: {measured}")
        return measured


def extract(store: str, **given: Any) -> dict[str, float]:
    run = Run(**given)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: run.cores])
    begun = time.perf_counter()
    if run.engine == "ray":
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray

        quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
        ray.init("local", num_cpus=run.workers, object_store_memory=OBJECTS, **quiet)
    settings = ExtractionSettings(device="cpu", workers=run.workers)
    specification = specify(run.image, "none", "none", "default")
    folder = FeatureStore(store)
    failed = extract_all([run.videos], folder, specification, settings, engine=run.engine).failed
    assert not failed, failed
    seconds = time.perf_counter() - begun
    written = sorted(path.stat().st_mtime for path in folder.folder.glob("*.safetensors"))
    rate = (len(written) - 1) / (written[-1] - written[0])
    return {"seconds": seconds, "rate": rate, "driver": time.process_time(), "control": control_seconds()}


def control_seconds() -> float:
    """Processor time of Ray's control service, which this process has started; 0 without Ray."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            about = place.read_text()
        except OSError:  # it has ended meanwhile
            continue
        name, fields = about[about.index("(") + 1 : about.rindex(")")], about[about.rindex(")") + 2 :].split()
        if name == "gcs_server" and int(fields[1]) == os.getpid():
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def linked(clip: Path, count: int, folder: Path) -> str:
    """A folder with so many names of a clip."""
    folder.mkdir()
    for number in range(count):
        os.link(clip, folder / f"v{number:05d}.mp4")
    return str(folder)


def throughput(clip: Path, options: argparse.Namespace, folder: Path) -> list[Row]:
    videos = linked(clip, options.clips, folder / "clips")
    engines: tuple[Engine, ...] = ("local", "ray")
    found: dict[Run, list[dict[str, float]]] = {
        Run(engine, count, count, videos, options.image): [] for count in sorted({1, cores()}) for engine in engines
    }
    for _ in range(options.rounds):
        for run, measured in found.items():
            measured.append(run.measure())
    rates = {(run.engine, run.cores): statistics.median(each["rate"] for each in found[run]) for run in found}
    rows = []
    for run, measured in found.items():
        rate = rates[run.engine, run.cores]
        row = about("throughput", run, options.clips) | {"runs": options.rounds, "rate": f"{rate:.4g}"}
        row |= {"seconds": f"{statistics.median(each['seconds'] for each in measured):.4g}"}
        row |= {"of_local": f"{rate / rates['local', run.cores]:.3f}"}
        rows.append(row | {"efficiency": f"{rate / run.cores / rates[run.engine, 1]:.3f}"})
    return rows


def coordinator(options: argparse.Namespace, folder: Path) -> list[Row]:
    clip = folder / "tiny.mp4"
    media.write(clip, np.zeros((12, 64, 64, 3), np.uint8), 10)
    few, many = options.videos
    folders = {count: linked(clip, count, folder / f"{count}") for count in (few, many)}
    rows = []
    for workers in options.workers:
        runs = {count: Run("ray", cores(), workers, videos, TINY) for count, videos in folders.items()}
        measured = {count: run.measure() for count, run in runs.items()}
        row = about("coordinator", runs[many], many) | {"runs": 1, "rate": f"{measured[many]['rate']:.4g}"}
        rows.append(row | of_a_further_video(measured[few], measured[many], many - few))
    return rows


def of_a_further_video(few: dict[str, float], many: dict[str, float], further: int) -> Row:
    each = {name: 1e3 * (many[name] - few[name]) / further for name in ("driver", "control")}
    busier = max(each.values())
    row = {f"{name}_ms": f"{milliseconds:.3f}" for name, milliseconds in each.items()}
    return row | {"feeds": f"{1e3 / busier:.0f}" if busier > 0 else ""}


def about(kind: str, run: Run, clips: int) -> Row:
    row: Row = conditions(torch.device("cpu")) | {"kind": kind, "engine": run.engine, "cores": run.cores}
    row |= {"workers": run.workers, "image": run.image, "clips": clips, "runs": "", "rate": "", "seconds": ""}
    return row | {"of_local": "", "efficiency": "", "driver_ms": "", "control_ms": "", "feeds": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clip", help="a file; a clip of 15 s is made otherwise")
    parser.add_argument("--clips", type=int, default=20, help="how many times it is extracted; 0 = not")
    parser.add_argument("--rounds", type=int, default=2, help="of each engine and number of cores")
    parser.add_argument("--image", default="dinov2-small", help="backbone of the clips")
    parser.add_argument("--videos", type=int, nargs=2, default=(600, 1800), help="tiny videos for the coordinator")
    parser.add_argument("--workers", type=int, nargs="+", default=(2, 8), help="of Ray for the coordinator")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(extract(**json.loads(options.one))))
        return
    with TemporaryDirectory() as folder, clips_of(options.clip) as (video, *_):
        rows = throughput(video.path, options, Path(folder)) if options.clips else []
        rows += coordinator(options, Path(folder))
    write_rows(options.out, rows, KEYS)
    say(f"the table is {options.out}")


if __name__ == "__main__":
    main()
