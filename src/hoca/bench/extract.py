"""How fast videos become features: clips and seconds of video per second, decoding apart from the networks.

Rows, for each sampling: every backbone alone and all of them, `decode` in one process and `network` on the device; then
`decode` for all of them in all processes; on a GPU `send`, clips that are decoded and copied there, and `batches`, the
networks over batches of different clips that are there already; `pipeline`, all of it overlapped by the local engine
with everything loaded; and `command`, one clip by `hoca extract` in a process of its own, start-up included, once the
weights are in the cache.

    hoca bench extract videos=CLIPS random_weights=true --device cuda

runs where no weights can be fetched. PyAV may be a wheel that is unpacked into a folder on PYTHONPATH: the processes
that decode search the same folders.

    hoca bench extract 'parts=[]'                                      # measures nothing: the shares alone, again

`share_of_slower` is the pipeline's clips per second as a share of the slower of `decode` in all processes and the
networks, on a GPU those of `batches`; `bound_by` names the slowest of all that was measured apart. Both are computed
from the table's other rows of the same device and commit.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from hoca import media
from hoca.bench import Row, check_parts, conditions, measure, overlap, write_rows
from hoca.bench.extraction import precision_of, require, row_of, write_shares
from hoca.errors import UserError
from hoca.features import Extracted, FeatureStore, specify
from hoca.features.engines import ExtractionSettings, find
from hoca.features.engines.local import Worker
from hoca.features.engines.videos import VideoFile
from hoca.features.extractor import Extractor
from hoca.options import option
from hoca.progress import say

PARTS = ("decode", "network", "pipeline", "command")
Sampling = Literal["default", "paper"]
KEYS = ("sampling", "modality", "backbone", "precision", "part", "processes", "batch", "clips")
DECODED_ALONE = 4  # clips whose decoding in one process is timed
TONE_RATE = 22050  # samples a second


@dataclass(frozen=True)
class Options:
    videos: str | None = option(None, "a file, folder or pattern; a clip of 15 s is made otherwise")
    image: str = option("dinov2-small", "backbone for pictures, or none")
    motion: str = option("i3d-kinetics-400", "backbone for motion, or none")
    audio: str = option("soundnet-8", "backbone for sound, or none")
    sampling: Literal["default", "paper", "both"] = option("default", "which moments are looked at")
    precision: str = option("auto", "of the networks: auto, float32 or bf16")
    processes: int | None = option(None, "that decode; null = one per core")
    batch: int | None = option(None, "clips through a network together; null = as many as suit the device")
    seconds: float = option(10.0, "to spend on each measurement of a network, at most, after three calls", least=0)
    parts: list[str] = option(list(PARTS), "what is measured")
    random_weights: bool = option(False, "networks that have learned nothing, where no weights are; no `command` then")


def run(options: Options, *, device: torch.device, out: Path) -> None:
    check_parts(options.parts, PARTS)
    if options.random_weights and "command" in options.parts:
        options = replace(options, parts=[part for part in options.parts if part != "command"])
    samplings: tuple[Sampling, ...] = ("default", "paper") if options.sampling == "both" else (options.sampling,)
    if options.parts:
        with clips_of(options.videos) as videos:
            for sampling in samplings:
                for row in _rows(options, sampling, videos, device):
                    write_rows(out, [row], KEYS)  # one by one: what is measured stays if the rest is stopped
    write_shares(out, KEYS)
    say(f"the table is {out}")


def _rows(options: Options, sampling: Sampling, videos: list[VideoFile], device: torch.device) -> Iterator[Row]:
    common = {**conditions(device), "sampling": sampling}
    chosen = {"image": options.image, "motion": options.motion, "audio": options.audio}
    whole = specify(options.image, options.motion, options.audio, sampling)
    settings = ExtractionSettings(str(device), options.precision, options.processes, options.batch)
    about = common | {"modality": "all", "backbone": _backbones(whole)}
    if set(options.parts) & {"decode", "network", "pipeline"}:
        with (
            tempfile.TemporaryDirectory() as folder,
            Worker(FeatureStore(folder), whole, settings, _extractor(options, whole, device)) as worker,
        ):
            decoded = _decoded(worker, videos[: worker.batch])  # which are among those of `batches`
            for name in [*whole, "all"]:
                specification = whole if name == "all" else {name: whole[name]}
                extractor = _extractor(options, specification, device)
                of_one = common | {"modality": name, "backbone": _backbones(specification)}
                if "decode" in options.parts:
                    yield _decoding(extractor, videos[:DECODED_ALONE], of_one)
                if "network" in options.parts:
                    yield _network(options, specification, extractor, decoded, device, of_one)
            if "decode" in options.parts:
                yield overlap.decoding(worker, videos, about)
            if "pipeline" in options.parts:
                if worker.sends:
                    yield overlap.sending(worker, videos, about)
                    yield overlap.batches(worker, videos, about)
                yield overlap.pipeline(worker, videos, about)
    if "command" in options.parts:
        yield _command(chosen, sampling, videos[0], device, about)


def _extractor(options: Options, specification: dict[str, Any], device: torch.device) -> Extractor:
    extractor = Extractor(
        specification, device=str(device), precision=options.precision, random_weights=options.random_weights
    )
    torch.manual_seed(0)  # random weights are the same each time
    assert extractor.networks is not None
    return extractor


def _backbones(specification: dict[str, Any]) -> str:
    return "+".join(made["backbone"] for made in specification.values())


def _decoded(worker: Worker, videos: list[VideoFile]) -> list[media.DecodedVideo]:
    """What all backbones want of some videos; each of them finds its own part in it."""
    return list(overlap.decoded(worker, videos))


def _decoding(extractor: Extractor, videos: list[VideoFile], about: Row) -> Row:
    requests = [extractor.request(video.path) for video in videos]
    with suppress(UserError):
        media.decode(requests[0])  # what is imported at first use is no part of it
    played = []
    begun = time.perf_counter()
    for request in requests:
        with suppress(UserError):  # a silent clip, where only sound is wanted
            played.append(media.decode(request, threads=1).duration)
    return row_of(about, "decode", "", 1, 1, len(played), sum(played), time.perf_counter() - begun)


def _network(
    options: Options,
    specification: dict[str, Any],
    extractor: Extractor,
    decoded: list[media.DecodedVideo],
    device: torch.device,
    about: Row,
) -> Row:
    work = partial(extractor.features, decoded)
    calls = 20 if device.type == "cuda" else 3
    timing = measure(work, device, calls=calls, warmup=1, at_most=options.seconds)
    made = work()
    exact = _extractor(replace(options, precision="float32"), specification, device)
    cosine = _agreement(made, exact, decoded)
    played = [clip.duration for clip in made if clip.features]  # a silent clip costs the sound's network nothing
    precision = precision_of(extractor)
    return row_of(about, "network", precision, "", len(decoded), len(played), sum(played), timing.median, cosine)


def _agreement(made: list[Extracted], exact: Extractor, decoded: list[media.DecodedVideo]) -> float:
    """The least cosine, over steps and modalities, between a batch as it is measured and float32, clip by clip.

    Of the batch only its first and last clips are done again.
    """
    cosines = [1.0]
    for place in {0, len(decoded) - 1}:
        expected = exact.features([decoded[place]])[0].features
        for name, right in expected.items():
            found = made[place].features[name]
            norms = np.linalg.norm(found, axis=1) * np.linalg.norm(right, axis=1)
            cosines.append(float(((found * right).sum(1) / np.maximum(norms, 1e-12)).min()))
    return min(cosines)


def _command(chosen: dict[str, str], sampling: str, video: VideoFile, device: torch.device, about: Row) -> Row:
    flags = [word for name, text in chosen.items() for word in (f"--{name}", text)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hoca", "extract", str(video.path), "--out", folder, "--device", str(device)]
        begun, busy = time.perf_counter(), _children_seconds()
        done = subprocess.run([*command, "--sampling", sampling, *flags], capture_output=True, text=True)
        seconds, busy = time.perf_counter() - begun, _children_seconds() - busy
        require([] if done.returncode == 0 else [done.stderr.strip().splitlines()[-1]])
        with open(Path(folder, "extraction.csv"), newline="", encoding="utf-8") as file:
            played = float(next(csv.DictReader(file))["duration"])
    return row_of(about, "command", "auto", "", 1, 1, played, seconds, busy=busy)


def _children_seconds() -> float:
    """Processor time of child processes that have ended: unlike the clock's, what else runs does not lengthen it."""
    used = os.times()
    return used.children_user + used.children_system


@contextmanager
def clips_of(given: str | None) -> Iterator[list[VideoFile]]:
    if given is not None:
        yield find([given])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clip-15s.mp4")
        media.write(path, _moving(), 25, tone(15.0), rate=TONE_RATE)
        yield find([path])


def _moving(frames: int = 375, height: int = 240, width: int = 320) -> np.ndarray:
    """Textured pictures that drift, so that they cost a decoder what a real clip does: uint8 [F, height, width, 3]."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (height // 8, 2 * width // 8, 3), dtype=np.uint8)
    scene = coarse.repeat(8, axis=0).repeat(8, axis=1)  # [height, 2·width, 3]
    return np.stack([np.roll(scene, -2 * number, axis=1)[:, :width] for number in range(frames)])


def tone(seconds: float) -> np.ndarray:
    """A rising tone, [samples] at `TONE_RATE`."""
    time = np.arange(int(seconds * TONE_RATE)) / TONE_RATE
    return (0.3 * np.sin(2 * np.pi * (200 + 40 * time) * time)).astype(np.float32)
