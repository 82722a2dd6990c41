"""Where the seconds of captioning go on this machine, and how near `captions()` comes to a perfect overlap.

    hoca bench caption videos=CLIPS --device cpu                       # 50 clips, each way twice, in turn
    hoca bench caption videos=CLIPS before=CHECKOUT --device cpu       # the first way in the code of another commit
    hoca bench caption 'parts=[clip]' --device cpu                     # start-up, one clip of 15 s and the next one

`stage` rows: seconds a clip of each stage, all cores busy with it and with nothing else; their sum is what a perfect
overlap would take. They are timed again in every round. `run` rows: a folder in a process of its own, `one by one` with
`caption()` and `together` with `captions()`, without start-up; the sentences of both are compared before a ratio is
given. `fixed` rows: one clip by `hoca caption`, from the start of the process to its end, without the networks'
seconds. Both ways compute in float32; other precisions have rows of their own, with the sentences that they change.
The part `clip`, in a table of its own, is what `one_clip.py` says.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hoca import media
from hoca.bench import Row, check_parts, conditions, ratio, write_rows
from hoca.bench.extract import clips_of
from hoca.bench.one_clip import waits
from hoca.bench.processes import Finished, run_python
from hoca.captioning import load
from hoca.errors import UserError
from hoca.features import Extractor
from hoca.features.network import cpu_has_bfloat16
from hoca.options import option
from hoca.progress import say
from hoca.threads import cores, thread_per_core

PARTS = ("folder", "clip")
KEYS = ("kind", "what", "precision", "clips", "cores")
STAGED = 6  # clips that each stage is timed on
NAMES = {"audio": "sound"}
# One folder, one way; it runs in the code of an earlier commit too, where `captions()` is not.
FOLDER = """
import json, sys, time
import hoca
way, model, precision, device, files = json.loads(sys.argv[1])
captioner = hoca.load(model, device)
if precision != "auto":
    from hoca.features import Extractor
    captioner.extractor = Extractor(captioner.specification, device=device, precision=precision)
captioner.caption(files[0])
begun = time.perf_counter()
found = captioner.captions(files) if way == "together" else map(captioner.caption, files)
texts = [getattr(one, "text", str(one)) for one in found]
seconds = time.perf_counter() - begun
captioner.close()
print(json.dumps({"seconds": seconds, "texts": texts}))
"""


@dataclass(frozen=True)
class Options:
    videos: str | None = option(
        None, "a file, folder or pattern; a clip of 15 s is made otherwise, taken several times"
    )
    clips: int = option(50, "as many are taken, the first ones", least=1)
    rounds: int = option(2, "of each way, in turn", least=1)
    before: str | None = option(
        None, "the folder of another commit, whose caption() the first way is; a shipped model is that commit's in both"
    )
    model: str = option("default", "a run folder, a checkpoint or a shipped model")
    precision: str = option("float32", "of the networks, the same in both ways")
    precisions: list[str] = option(["int8", "bf16"], "measured apart, where the processor has them")
    parts: list[str] = option(list(PARTS), "what is measured: a folder of clips, start-up and one clip of 15 s")
    clip: str | None = option(None, "the file of the part `clip`; a demo's pictures over 15 s otherwise")
    runs: int = option(5, "of each process of the part `clip`, in turn", least=1)


def run(options: Options, *, device: torch.device, out: Path) -> None:
    check_parts(options.parts, PARTS)
    if "clip" in options.parts:
        precisions = [options.precision, *_other_precisions(options, device)]
        table = out.with_name(f"{out.stem}-clip{out.suffix}")
        waits(options.model, options.clip, precisions, options.runs, device, table)
    if "folder" in options.parts:
        _folder(options, device, out)


def _folder(options: Options, device: torch.device, out: Path) -> None:
    with clips_of(options.videos) as videos:
        files = [str(video.path) for video in videos][: options.clips]
        files = (files * options.clips)[: options.clips] if options.videos is None else files
        bench = _Bench(options, files, device, out)
        bench.ways()
        bench.fixed()
    say(f"the table is {out}")


@dataclass
class _Bench:
    options: Options
    files: list[str]
    device: torch.device
    out: Path

    @property
    def model(self) -> str:
        if self.options.before:
            shipped = Path(self.options.before, "src/hoca/shipped", f"{self.options.model}.safetensors")
            return str(shipped.resolve()) if shipped.is_file() else self.options.model
        return self.options.model

    def write(self, kind: str, what: str, seconds: Iterable[float], **more: Any) -> float:
        """A row with the median of the seconds; returns it."""
        ordered = sorted(seconds)
        low, middle, high = ordered[0], statistics.median(ordered), ordered[-1]
        precision = more.pop("precision", self.options.precision)
        row: Row = conditions(self.device) | {"kind": kind, "what": what, "precision": precision}
        row |= {"clips": len(self.files), "cores": cores(), "seconds": f"{middle:.4g}", "low": f"{low:.4g}"}
        row |= {"high": f"{high:.4g}", "per_minute": "", "of_perfect": "", "times": "", "changed": "", "peak_mib": ""}
        write_rows(self.out, [row | more], KEYS)
        say(f"{kind} {what}: {middle:.3g} s" + "".join(f", {name} {value}" for name, value in more.items() if value))
        return middle

    def stages(self) -> dict[str, float]:
        """Seconds a clip of each stage by itself, of a share of the clips."""
        found: dict[str, float] = {}
        with closing(load(self.model, str(self.device))) as captioner:
            precision = self.options.precision
            extractor = Extractor(captioner.specification, device=str(self.device), precision=precision)
            captioner.extractor, some = extractor, self.files[:STAGED]
            requests = [extractor.request(file) for file in some]
            raw = [
                replace(r, pictures={n: replace(p, transform=None) for n, p in r.pictures.items()}) for r in requests
            ]
            with media.Decoders(workers=cores()) as decoders:
                list(decoders.map(requests[: cores()]))  # every worker is started
                found["decode"] = _seconds(lambda: _require(decoders.map(raw)), len(some))
                frames = [each for _, each in decoders.map(raw) if isinstance(each, media.DecodedVideo)]
                decoded = [each for _, each in decoders.map(requests) if isinstance(each, media.DecodedVideo)]
            with ThreadPoolExecutor(cores()) as pool:
                jobs = [
                    (wanted.transform, picture)
                    for clip in frames
                    for name, wanted in requests[0].pictures.items()
                    if wanted.transform is not None and name in clip.pictures
                    for picture in clip.pictures[name]
                ]
                found["resize"] = _seconds(lambda: list(pool.map(lambda job: job[0](job[1]), jobs)), len(some))
            with extractor.side_by_side():
                extractor.features(decoded[:1])
                extractor.seconds.clear()
                made = extractor.features(decoded)
            for name, seconds in extractor.seconds.items():
                found[NAMES.get(name, f"{name} backbone")] = seconds / len(decoded)
            with thread_per_core():
                captioner.describe_all(made)
                found["search"] = _seconds(lambda: captioner.describe_all(made), len(made) * cores())
        return found

    def ways(self) -> None:
        """A folder one by one and together, in turn with the stages, so that what else runs meets all alike."""
        precisions, same = _other_precisions(self.options, self.device), self.options.precision
        kinds = [("one by one", same), ("together", same), *(("together", name) for name in precisions)]
        runs: dict[tuple[str, str], list[Finished]] = {kind: [] for kind in kinds}
        stages: list[dict[str, float]] = []
        for _ in range(self.options.rounds):
            stages.append(self.stages())
            for way, precision in kinds:
                runs[way, precision].append(self._folder(way, precision))
        for stage in stages[0]:
            self.write("stage", stage, [each[stage] for each in stages])
        perfect = self.write("stage", "perfect overlap", [sum(each.values()) for each in stages])
        expected = runs[kinds[0]][0].said["texts"]
        slow = statistics.median(run.said["seconds"] for run in runs[kinds[0]])
        for (way, precision), found in runs.items():
            each = [run.said["seconds"] / len(self.files) for run in found]
            changed = sum(one != other for one, other in zip(found[0].said["texts"], expected, strict=True))
            middle = statistics.median(each)
            self.write(
                *("run", way, each),
                precision=precision,
                per_minute=f"{60 / middle:.3g}",
                of_perfect=f"{perfect / middle:.3g}" if precision == same else "",
                times=ratio(slow / len(self.files), middle, correct=precision != same or not changed),
                changed=changed,
                peak_mib=round(max(run.peak_bytes for run in found) / 2**20),
            )

    def _folder(self, way: str, precision: str) -> Finished:
        given = json.dumps([way, self.model, precision, str(self.device), self.files])
        return run_python(["-c", FOLDER, given], self._environment(before=way == "one by one"))

    def fixed(self) -> None:
        """`hoca caption` of one clip, in this code and in the other commit's, in turn."""
        whole: dict[str, list[float]] = {"before": [], "now": []} if self.options.before else {"now": []}
        command = ["-m", "hoca", "caption", self.files[0], "--model", self.model, "--json"]
        for _ in range(2 * self.options.rounds):
            for when, seconds in whole.items():
                done = run_python(command, self._environment(before=when == "before"))
                seconds.append(done.seconds - done.said["seconds"]["features"])
        first = statistics.median(next(iter(whole.values())))
        for when, seconds in whole.items():
            faster = ratio(first, statistics.median(seconds), correct=True)
            self.write("fixed", when, seconds, precision="auto", times=faster)

    def _environment(self, *, before: bool) -> dict[str, str]:
        source = Path(__file__).resolve().parents[2]
        if before and self.options.before:
            source = Path(self.options.before) / "src"
            if not (source / "hoca").is_dir():
                raise UserError(f"before={self.options.before}: no src/hoca in it, give the folder of a checkout")
        return {**os.environ, "PYTHONPATH": str(source)}


def _other_precisions(options: Options, device: torch.device) -> list[str]:
    """Those that are asked for and that the device has."""
    precisions = [name for name in options.precisions if name != "int8" or device.type == "cpu"]
    if "bf16" in precisions and device.type == "cpu" and not cpu_has_bfloat16():
        say("bf16: this processor has no such arithmetic, it is not measured")
        precisions.remove("bf16")
    return precisions


def _seconds(work: Callable[[], object], count: int) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) / max(count, 1)


def _require(results: Iterable[tuple[Any, media.DecodedVideo | media.Failure]]) -> None:
    for _, found in results:
        if isinstance(found, media.Failure):
            raise UserError(f"nothing was measured, since a clip failed: {found.reason}")
