"""Beam search over the videos of MSR-VTT's test split, from their encodings in the device's memory.

    hoca bench generate                # beam 5, 2,990 videos, up to 30 words
    hoca bench generate videos=60 at_once=30 hidden=64 attention=64 vocabulary=500 --device cpu

The weights are random, so almost no sentence ends early: what is measured is the longest that the search can take.
`plain` asks the device after every word whether all sentences are finished; `captured` says several words a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from hoca.bench import LEAST_CALLS, Row, conditions, measure, peak_memory, ratio, write_rows
from hoca.bench.profiling import write_profile
from hoca.bench.workload import Sizes, fresh, set_backend
from hoca.generation import SentenceLimits, beam_search
from hoca.generation.beam import BeamSearch
from hoca.generation.step import inference
from hoca.models import CaptionModel, Memory
from hoca.options import option
from hoca.progress import say

KEYS = (
    "model",
    "path",
    "precision",
    "beam",
    "videos",
    "at_once",
    "words",
    "steps",
    "hidden",
    "attention",
    "vocabulary",
)
SearchFunction = Callable[[CaptionModel, Memory], Tensor]


@dataclass(frozen=True)
class Options(Sizes):
    videos: int = option(2990, "to search sentences for", least=1)
    at_once: int = option(299, "videos that are searched at once", least=1)
    beam: int = option(5, "width of the search", least=1)
    models: list[str] = option(["l-hoca-ubt"], "to measure, see `hoca models`")
    calls: int = option(3, "timings of each path", least=LEAST_CALLS)
    backend: str = option("auto", "of hoca.ops")
    profiles: str | None = option(None, "folder for the kernel table of the captured search")


def run(options: Options, *, device: torch.device, out: Path) -> None:
    rows: list[Row] = []
    for name in options.models:
        for precision in ("float32", "bf16"):
            rows += _rows(options, name, precision, device)
            write_rows(out, rows, KEYS)


def _rows(options: Options, name: str, precision: str, device: torch.device) -> list[Row]:
    fresh(device)
    model = replace(options, videos=options.at_once).model(name, device).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2 and len(parameter) == len(model.vocabulary) and parameter is not model.embedding.weight:
            parameter.data.mul_(5)  # opinions, so that the searches do not hang on the last digit
    set_backend(model, options.backend)
    torch.manual_seed(1)
    features = [
        options.features(device, min(options.at_once, options.videos - first))
        for first in range(0, options.videos, options.at_once)
    ]
    limits = SentenceLimits(max_length=options.words)
    plain = BeamSearch(limits, options.beam, 0.0)

    def search_plainly(model: CaptionModel, memory: Memory) -> Tensor:
        with inference(model):
            return plain.run(model, memory).words[:, 0]

    def search_captured(model: CaptionModel, memory: Memory) -> Tensor:
        words = beam_search(model, memory, limits, width=options.beam).words[:, 0]
        return torch.nn.functional.pad(words, (0, limits.max_length + 2 - words.shape[1]), value=model.vocabulary.pad)

    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"), torch.no_grad():
        memories = [model.encode(part, {}) for part in features]

        def all_videos(search: SearchFunction) -> Tensor:
            return torch.cat([search(model, memory) for memory in memories])

        def encoded_too(search: SearchFunction) -> Tensor:
            return torch.cat([search(model, model.encode(part, {})) for part in features])

        expected = all_videos(search_plainly)
        rows: list[Row] = []
        slowest = None
        paths: dict[str, Callable[[], Tensor]] = {
            "plain": lambda: all_videos(search_plainly),
            "captured": lambda: all_videos(search_captured),
            "encoded and captured": lambda: encoded_too(search_captured),
        }
        for path, call in paths.items():
            found: list[Tensor] = []
            memory = peak_memory(lambda call=call, found=found: found.append(call()), device)  # type: ignore[misc]
            same = float((found[0] == expected).all(1).float().mean())
            timing = measure(call, device, calls=options.calls, warmup=0)
            slowest = slowest or timing
            if options.profiles and path == "captured" and device.type == "cuda":
                write_profile(call, Path(options.profiles) / f"generate-{name}-{precision}.txt", calls=1)
            said = float((expected != model.vocabulary.pad).sum(1).float().mean()) - 2
            times_faster = ratio(slowest, timing, correct=same >= 0.99)
            say(
                f"{name}, beam {options.beam}, {path}, {precision}: {options.videos} videos in {timing.median:.3f} s, "
                f"{100 * same:.1f} % of the sentences as the plain search finds them, {said:.1f} words each"
            )
            rows.append(
                conditions(device)
                | {
                    "model": name,
                    "path": path,
                    "precision": precision,
                    "beam": options.beam,
                    "at_once": options.at_once,
                }
                | {f.name: getattr(options, f.name) for f in fields(Sizes) if f.name != "captions"}
                | {"seconds": f"{timing.median:.4f}", "seconds_low": f"{timing.low:.4f}"}
                | {"seconds_high": f"{timing.high:.4f}", "calls": timing.calls}
                | {"peak_gb": memory and f"{memory / 1e9:.2f}", "same": f"{same:.4f}", "words_said": f"{said:.1f}"}
                | {"times_faster": times_faster}
            )
    return rows
