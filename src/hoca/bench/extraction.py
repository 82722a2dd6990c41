"""A row of the table of extraction."""

from __future__ import annotations

from hoca.bench import Row
from hoca.errors import UserError
from hoca.features.extractor import Extractor
from hoca.progress import say

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


def precision_of(extractor: Extractor) -> str:
    """What `auto` came to, in the order of the modalities, once where it is the same for all."""
    networks = [network.module for network in extractor.networks.values() if network is not None]
    names = [str(next(network.parameters()).dtype).removeprefix("torch.") for network in networks]
    return "+".join(dict.fromkeys(names) if len(set(names)) == 1 else names)


def require(failures: list[str]) -> None:
    if failures:
        raise UserError(f"nothing was measured, since a clip failed: {failures[0]}")
