"""How the cost of a dataset grows with its size: stores of 10³ entries and more, with tiny features.

    hoca bench scale                                # 10³ to 10⁶ entries
    hoca bench scale 'entries=[1000, 10000]'         # fewer

Every entry is a real file, a link to one of a few that were written by the store, and a video is an empty name: neither
its content nor its decoding is measured. Rows:

    names       of the files in the store's folder
    list        names, sizes and times in the folders of store and videos: `ls -l`, what a resumed extraction must know
    first open  the store, without an index
    open        the same with it
    resume      an extraction in which everything is done
    dataset     captions and features joined
    vocabulary  of all captions
    batches     laid out for an epoch
    epoch       all its batches, without reading features

Each runs in a process of its own, whose memory is taken; seconds are the processor's, which other work does not
lengthen. The exponent is the slope of log seconds over log entries from 10⁴ on: below, start-up is all there is.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hoca.bench import Row, check_parts, conditions, write_rows
from hoca.bench.processes import run_python
from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.features.index import NAME as INDEX
from hoca.options import option
from hoca.progress import say

KEYS = ("what", "entries")
SPECIFICATION = {"image": {"backbone": "light-image", "weights": None, "sampling": "even", "steps": 2}}
KINDS = 50  # different files
LEAST = 10_000  # entries from which on a slope is taken
# Each part says how long it took and the most memory that it held, in a process that does nothing else.
PARTS = {
    "names": "timed(lambda: len(os.listdir(folder / 'features')))",
    "list": "timed(lambda: [each.stat() for kind in ('features', 'videos') for each in os.scandir(folder / kind)])",
    "first open": "timed(lambda: len(FeatureStore(folder / 'features').survey()))",
    "open": "timed(lambda: len(FeatureStore(folder / 'features').survey()))",
    "resume": "from hoca.features.engines import *; timed(lambda: len(extract_all([folder / 'videos'],"
    " FeatureStore(folder / 'features'), SPECIFICATION, ExtractionSettings(), report=folder / 'report.csv').outcomes))",
    "dataset": "from hoca.data import FolderDataset; timed(lambda: len(FolderDataset(folder).corpus))",
    "vocabulary": "from hoca.data import FolderDataset, Vocabulary; data = FolderDataset(folder).corpus;"
    " timed(lambda: len(Vocabulary.build(data.captions('train'), minimum=1)))",
    "batches": "from hoca.data import FolderDataset, Vocabulary, Batches; data = FolderDataset(folder);"
    " words = Vocabulary.build(data.corpus.captions('train'), minimum=1);"
    " timed(lambda: len(Batches(data, 'train', words, batch_size=64)))",
    "epoch": "from hoca.data import FolderDataset, Vocabulary, Batches; data = FolderDataset(folder);"
    " words = Vocabulary.build(data.corpus.captions('train'), minimum=1);"
    " batches = Batches(data, 'train', words, batch_size=64);"
    " data.padded = lambda ids: ({}, {}); timed(lambda: (batches.set_epoch(1), sum(1 for _ in batches)))",
}
CODE = """
import json, os, resource, sys, time
from pathlib import Path
from hoca.bench.scale import SPECIFICATION
from hoca.features import FeatureStore
folder = Path(sys.argv[1])
def timed(work):
    begun = time.process_time()
    work()
    seconds = time.process_time() - begun
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


@dataclass(frozen=True)
class Options:
    entries: list[int] = option([1000, 10_000, 100_000, 1_000_000], "sizes of the stores")
    parts: list[str] = option(list(PARTS), "what is measured")
    folder: str | None = option(None, "where the stores are made, and removed again; null = a temporary folder")


def run(options: Options, *, device: torch.device, out: Path) -> None:
    sizes, parts = sorted(set(options.entries)), options.parts
    if not sizes or sizes[0] < 1:
        raise UserError(f"entries={options.entries}: give numbers of at least 1")
    check_parts(parts, PARTS)
    rows: list[Row] = []
    for entries in sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            make(Path(folder), entries)
            rows += _measured(Path(folder), entries, parts)
        for row in rows:
            row["exponent"] = _exponent([other for other in rows if other["what"] == row["what"]])
        write_rows(out, [conditions(device) | row for row in rows], KEYS)
    say(f"the table is {out}")


def make(folder: Path, entries: int) -> None:
    """A dataset of so many entries: captions, features, and names of videos."""
    store, captions = FeatureStore(folder / "features"), folder / "captions.jsonl"
    (folder / "videos").mkdir(parents=True)
    kinds = FeatureStore(folder / "kinds")
    for kind in range(KINDS):
        values = np.full((2, 4), kind, np.float16)
        kinds.write(f"{kind}", {"image": values}, specification=SPECIFICATION, duration=float(kind), size=0, wait=False)
    store.folder.mkdir()
    empty = folder / "empty"
    empty.touch()
    sources = [kinds.path(f"{kind}") for kind in range(KINDS)]
    with captions.open("w", encoding="utf-8") as file:
        for number in range(entries):
            id = f"video{number:07d}"
            _link(sources[number % KINDS], store.folder / f"{id}.safetensors")
            _link(empty, folder / "videos" / f"{id}.mp4")
            file.write(
                json.dumps({"id": id, "split": "train", "captions": [f"a man sees thing {number % 997}"]}) + "\n"
            )


def _link(source: Path, target: Path) -> None:
    """A second name of a file: as much work for whoever lists and opens it, less for whoever makes it."""
    try:
        os.link(source, target)
    except OSError:  # a file system has a most number of names of one file
        fresh = source.with_suffix(".more")
        fresh.write_bytes(source.read_bytes())
        fresh.replace(source)
        os.link(source, target)


def _measured(folder: Path, entries: int, parts: list[str]) -> list[Row]:
    rows: list[Row] = []
    listing = 0.0
    for what in [part for part in PARTS if part in parts]:
        if what == "first open":
            (folder / "features" / INDEX).unlink(missing_ok=True)
        seconds, peak = run_python(["-c", CODE + PARTS[what], str(folder)]).said
        listing = seconds if what == "list" else listing
        row: Row = {"what": what, "entries": entries, "seconds": f"{seconds:.4g}", "exponent": ""}
        times = f"{seconds / listing:.3g}" if listing else ""
        rows.append(row | {"times_listing": times, "peak_mib": round(peak / 2**20)})
        say(f"{entries} entries, {what}: {seconds:.3g} s, {rows[-1]['peak_mib']} MiB")
    return rows


def _exponent(rows: list[Row]) -> str:
    points = [(math.log(row["entries"]), math.log(float(row["seconds"]))) for row in rows if row["entries"] >= LEAST]
    if len(points) < 2:
        return ""
    sizes, seconds = (np.array(values) for values in zip(*points, strict=True))
    return f"{np.polyfit(sizes, seconds, 1)[0]:.3f}"
