"""Rows of the table of extraction."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from hoca.bench import Row, write_rows
from hoca.errors import UserError
from hoca.features.extractor import Extractor
from hoca.progress import say

STAGES = ("decode", "send", "network", "batches")  # that are measured apart
LEAST_COSINE = 0.98  # against one clip at a time in float32; bf16 networks come to 0.99 and above


def row_of(
    about: Row,
    part: str,
    precision: str,
    processes: int | str,
    batch: int,
    clips: int,
    video_seconds: float,
    seconds: float,
    cosine: float | None = None,
    busy: float | None = None,
) -> Row:
    wrong = cosine is not None and not cosine >= LEAST_COSINE
    row = {
        **about,
        "precision": precision,
        "part": part,
        "processes": processes,
        "batch": batch,
        "clips": clips,
        "video_seconds": f"{video_seconds:.4g}",
        "seconds": f"{seconds:.4g}",
        "processor_seconds": "" if busy is None else f"{busy:.4g}",
        "times_real_time": "" if wrong else f"{video_seconds / seconds:.3g}",
        "clips_per_second": "" if wrong else f"{clips / seconds:.4g}",
        "share_of_slower": "",
        "bound_by": "",
        "least_cosine": "" if cosine is None else f"{cosine:.5f}",
    }
    say(
        f"{row['sampling']} {row['backbone']} {part}{f' in {processes} processes' if processes else ''}: "
        f"{row['seconds']} s for {clips} clips, {row['video_seconds']} s of video"
    )
    return row


def write_shares(table: Path, keys: Sequence[str]) -> None:
    """What the pipelines reach of their parts, from the clips per second that the table has of both."""
    if not table.is_file():
        return
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for pipeline in [row for row in rows if row["part"] == "pipeline"]:
        shares = _shares(pipeline, rows)
        if shares.items() <= pipeline.items():
            continue
        write_rows(table, [pipeline | shares], keys)
        say(f"the pipeline reaches {shares['share_of_slower']} of the slower part, bound by {shares['bound_by']}")


def _shares(pipeline: Row, rows: Sequence[Row]) -> Row:
    """`share_of_slower` and `bound_by`, empty unless decoding and the networks were measured, too."""
    alone = {}
    for row in rows:
        names = ["device", "commit", "sampling", "backbone"]
        if row["part"] in ("decode", "send"):  # there is also a row of one process and a few clips
            names += ["processes", "clips"]
        if row["part"] in STAGES and row["clips_per_second"] and all(row[name] == pipeline[name] for name in names):
            alone[row["part"]] = float(row["clips_per_second"])
    networks = "batches" if "batches" in alone else "network"  # the same clips; one batch may be of shorter ones
    if not {"decode", networks} <= alone.keys() or not pipeline["clips_per_second"]:
        return {"share_of_slower": "", "bound_by": ""}
    share = float(pipeline["clips_per_second"]) / min(alone["decode"], alone[networks])
    return {"share_of_slower": f"{share:.3f}", "bound_by": min(alone, key=lambda part: alone[part])}


def precision_of(extractor: Extractor) -> str:
    """What `auto` came to, in the order of the modalities, once where it is the same for all."""
    networks = [network.module for network in extractor.networks.values() if network is not None]
    names = [str(next(network.parameters()).dtype).removeprefix("torch.") for network in networks]
    return "+".join(dict.fromkeys(names) if len(set(names)) == 1 else names)


def require(failures: list[str]) -> None:
    if failures:
        raise UserError(f"nothing was measured, since a clip failed: {failures[0]}")
