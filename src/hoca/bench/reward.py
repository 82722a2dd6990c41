"""A step with rewards beside a step of eq. 24 on the same videos and captions.

    hoca bench reward                                   # the paper's size, 5 captions of each video
    hoca bench reward models='[l-hoca-ubt]' captions=1

`xe` is the captured step. `scst-loo` draws captions, scores them on the host and learns from them and from the given
ones: plainly, or drawn and learned from as captured graphs. Plain and captured losses are first compared, without
dropout (`error`, the largest relative difference); `time_to_xe` is a step's time as a multiple of the `xe` step's.
Captions are drawn by a model that has learned nothing, so they have nearly all words that are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from hoca.bench import LEAST_CALLS, Row, Timing, conditions, measure, peak_memory, ratio, write_rows
from hoca.bench.train import ALLOWED, RATE
from hoca.bench.workload import UNARY, Sizes, all_alone, fresh, in_turn
from hoca.data import Batch
from hoca.generation import Search
from hoca.options import option
from hoca.progress import say
from hoca.training.objectives import OBJECTIVES, Objective
from hoca.training.step import CapturedStep, PlainStep, StaticStep, Step

KEYS = ("model", "objective", "path", "precision", "samples", *(each.name for each in fields(Sizes)))
PATHS = (("xe", "captured"), ("scst-loo", "plain"), ("scst-loo", "captured"))


@dataclass(frozen=True)
class Options(Sizes):
    captions: int = option(5, "of each video", least=1)
    models: list[str] = option([UNARY, "l-hoca-ubt", "sa-lstm", "cst"], "to measure, see `hoca models`")
    precisions: list[str] = option(list(ALLOWED), "of the steps")
    samples: int = option(5, "captions drawn of each video", least=2)
    references: int = option(20, "captions that those of each video are scored against", least=2)
    dataset_videos: int = option(100, "videos with such captions", least=2)
    calls: int = option(5, "timings of each step", least=LEAST_CALLS)
    together: int = option(5, "steps in a timing", least=1)

    def rewarded(self, name: str) -> Objective:
        """The objective of a name, with captions of random words to score against."""
        dataset = replace(self, videos=max(self.videos, self.dataset_videos), captions=self.references)
        texts = dataset.texts(dataset.random_words(0))
        settings = replace(self.recipe("float32").train, objective=name, samples=self.samples)
        references = {str(number): captions for number, captions in enumerate(texts)}
        return OBJECTIVES[name](settings, Search(max_length=self.words - 1), self.words_known(), references)


def run(options: Options, *, device: torch.device, out: Path) -> None:
    objectives = {name: options.rewarded(name) for name, _ in PATHS}
    for name in options.models:
        rows: list[Row] = []
        for precision in options.precisions:
            rows += _rows(options, name, precision, objectives, device)
        write_rows(out, rows, KEYS)


def _rows(
    options: Options, name: str, precision: str, objectives: dict[str, Objective], device: torch.device
) -> list[Row]:
    batches = options.batches(name, device, 2)
    rows: list[Row] = []
    expected: dict[str, list[float]] = {}  # by objective, of its first path
    for objective, path in PATHS:
        make = partial(_step, options, name, objectives[objective], path, precision, device)
        found = _losses(make(dropout=0.0), batches)
        pairs = zip(found, expected.setdefault(objective, found), strict=True)
        error = max(abs(mine - other) / abs(other) for mine, other in pairs)
        timing, memory = _cost(options, make(dropout=0.5), batches, device, slow=path == "plain")
        correct = error <= ALLOWED[precision]
        against = ratio(timing, float(rows[0]["ms"]) / 1e3, correct=correct) if rows else "1"
        rows.append(
            conditions(device)
            | {"model": name, "objective": objective, "path": path, "precision": precision}
            | {"samples": options.samples if objective != "xe" else ""}
            | {each.name: getattr(options, each.name) for each in fields(Sizes)}
            | timing.columns()
            | {"peak_gb": memory and f"{memory / 1e9:.3f}", "error": f"{error:.2g}", "correct": correct}
            | {"time_to_xe": against}
        )
        say(
            f"{name}, {objective}, {path}, {precision}: {1e3 * timing.median:.2f} ms, {against} times xe's, "
            f"error {error:.2g}"
        )
    return rows


def _step(
    options: Options,
    name: str,
    objective: Objective,
    path: str,
    precision: str,
    device: torch.device,
    *,
    dropout: float,
) -> Step:
    fresh(device)
    recipe = options.recipe(precision)
    state = options.state(name, recipe, all_alone(device), dropout=dropout)
    captured: type[StaticStep] = CapturedStep if device.type == "cuda" else StaticStep
    return (PlainStep if path == "plain" else captured)(recipe.train, state, objective)


def _cost(
    options: Options, step: Step, batches: list[Batch], device: torch.device, *, slow: bool
) -> tuple[Timing, int | None]:
    turn = in_turn(batches)
    memory = peak_memory(lambda: [step(next(turn), RATE) for _ in range(3)], device)  # the captures are among them
    calls, together = (3, 1) if slow else (options.calls, options.together)
    return measure(lambda: step(next(turn), RATE), device, calls=calls, together=together), memory


def _losses(step: Step, batches: list[Batch]) -> list[float]:
    """The first losses per caption: of the first batch and of the second."""
    torch.manual_seed(0)
    return [float(step(batch, RATE)["loss"]) / batch.caption_count for batch in islice(in_turn(batches), 2)]
