"""A training step on every path, and an epoch of MSR-VTT's shape.

    hoca bench train                                    # the paper's size: on a GPU a few minutes
    hoca bench train models='[l-hoca-ubt]' epoch=false
    hoca bench train step=false epoch_captions=1        # the epoch alone, with the paper's batches of pairs
    hoca bench train lengths=MSRVTT                     # the folder of the official captions, for the epoch

`word by word` is the paper's description, `plain` all words at once, `captured` the same as CUDA graphs; `joined` adds
what several processes need, with one process. Each path is first compared with the word-by-word losses of the same
model without dropout (`error`, the largest relative difference), then timed with dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

import torch
import torch.distributed

from hoca.bench import LEAST_CALLS, Row, Timing, conditions, measure, peak_memory, ratio, write_rows
from hoca.bench.epoch import epoch_rows
from hoca.bench.profiling import write_profile
from hoca.bench.word_by_word import WordByWordStep
from hoca.bench.workload import UNARY, Sizes, caption_lengths, fresh, in_turn, set_backend
from hoca.data import Batch
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.options import option
from hoca.progress import say
from hoca.training.objectives import Objective
from hoca.training.recipe import TrainSection
from hoca.training.state import State
from hoca.training.step import CapturedStep, PlainStep, StaticStep, Step

RATE = 1e-4
ROUNDING = 2.0**-23  # what float32 can tell apart
ALLOWED = {"float32": 1e-3, "bf16": 2e-2}  # relative difference of the losses
KEYS = ("model", "path", "precision", "videos", "captions", "words", "steps", "hidden", "attention", "vocabulary")


@dataclass(frozen=True)
class Options(Sizes):
    models: list[str] = option([UNARY, "l-hoca-ubt", "hoca-ubt"], "to measure, see `hoca models`")
    word_by_word: bool = option(True, "measure the paper's own order of work, too")
    joined: list[str] = option(["l-hoca-ubt"], "models whose `joined` paths are measured")
    step: bool = option(True, "measure steps; otherwise the epoch alone")
    calls: int = option(15, "timings of each path", least=LEAST_CALLS)
    together: int = option(10, "steps in a timing", least=1)
    compare: int = option(200, "steps over which plain and captured losses are compared; 0 = none", least=0)
    backend: str = option("auto", "of hoca.ops, for all paths but the word-by-word one")
    tf32: bool = option(True, "in the LSTMs, cuDNN's and ours, which is torch's default")
    epoch: bool = option(True, "measure an epoch of MSR-VTT's shape, too")
    epoch_captions: int = option(20, "of each video in the epoch", least=1)
    profiles: str | None = option(None, "folder for the kernel tables of the captured steps")
    lengths: str | None = option(None, "MSR-VTT's folder, or an .npz with the words of each caption")


@dataclass(frozen=True)
class PathOption:
    name: str
    precision: str
    step: Callable[[TrainSection, State, Objective], Step]
    joined: bool = False


def run(options: Options, *, device: torch.device, out: Path) -> None:
    torch.backends.cudnn.allow_tf32 = options.tf32
    captured: type[StaticStep] = CapturedStep if device.type == "cuda" else StaticStep
    paths = [PathOption("word by word", "float32", WordByWordStep)] if options.word_by_word else []
    paths += [PathOption("plain", "float32", PlainStep)]
    paths += [PathOption("captured", precision, captured) for precision in ALLOWED]
    joined = [PathOption("plain, joined", "float32", PlainStep, joined=True)]
    joined += [PathOption("captured, joined", precision, captured, joined=True) for precision in ALLOWED]
    rows = []
    with _process_group(options.step and bool(options.joined), device):
        for name in options.models if options.step else ():
            rows += _rows_of_model(options, name, paths + joined if name in options.joined else paths, device)
            _compare_with_unary(rows, options.models)
            write_rows(out, rows, KEYS)
            if options.compare:
                _compare_curves(options, name, paths, device, out.with_name(f"{out.stem}-curves{out.suffix}"))
    if options.epoch:
        lengths = caption_lengths(options.lengths)
        if lengths is None:
            say("no epoch is measured: give lengths=FOLDER of MSR-VTT's official captions")
        else:
            epoch_rows(options, lengths, device, out.with_name(f"{out.stem}-epoch{out.suffix}"))


def _rows_of_model(options: Options, name: str, paths: list[PathOption], device: torch.device) -> list[Row]:
    batches = options.batches(name, device, 2)
    expected = _losses(options, name, paths[0], batches, 4)
    rows: list[Row] = []
    slowest: Timing | None = None
    for path in paths:
        found = expected if path is paths[0] else _losses(options, name, path, batches, 4)
        error = max(abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True))
        correct = error <= ALLOWED[path.precision]
        together = 1 if path.name == "word by word" else options.together
        timing, memory = _cost(options, name, path, batches, together)
        slowest = slowest or timing
        against = ratio(slowest, timing, correct=correct) if options.word_by_word else ""
        rows.append(
            conditions(device)
            | {"model": name, "path": path.name, "precision": path.precision}
            | {f.name: getattr(options, f.name) for f in fields(Sizes)}
            | timing.columns()
            | {"together": together}
            | {"peak_gb": memory and f"{memory / 1e9:.3f}", "error": f"{error:.2g}", "correct": correct}
            | {"times_faster": against, "time_to_unary": "", "memory_to_unary": ""}
        )
        say(
            f"{name}, {path.name}, {path.precision}: {1e3 * timing.median:.2f} ms"
            + (f", {memory / 1e9:.2f} GB" if memory else "")
            + f", error {error:.2g}"
            + (f", {against} times faster than word by word" if against else "")
        )
        if not correct:
            say(f"the losses differ by more than {ALLOWED[path.precision]}: no ratio is given")
    return rows


def _losses(
    options: Options, name: str, path: PathOption, batches: list[Batch], count: int, *, nudge: float = 0.0
) -> list[float]:
    """The first losses per caption, without dropout."""
    with _step(options, name, path, _device(batches), dropout=0.0, nudge=nudge) as step:
        return [float(step(batch, RATE)["loss"]) / batch.caption_count for batch in islice(in_turn(batches), count)]


def _cost(
    options: Options, name: str, path: PathOption, batches: list[Batch], together: int
) -> tuple[Timing, int | None]:
    device = _device(batches)
    with _step(options, name, path, device, dropout=0.5) as step:
        turn = in_turn(batches)
        memory = peak_memory(lambda: [step(next(turn), RATE) for _ in range(3)], device)  # the capture is among them
        calls = min(5, options.calls) if path.name == "word by word" else options.calls
        timing = measure(lambda: step(next(turn), RATE), device, calls=calls, together=together)
        if options.profiles and path.name == "captured" and device.type == "cuda":
            write_profile(lambda: step(next(turn), RATE), Path(options.profiles) / f"train-{name}-{path.precision}.txt")
        return timing, memory


@contextmanager
def _step(
    options: Options, name: str, path: PathOption, device: torch.device, *, dropout: float, nudge: float = 0.0
) -> Iterator[Step]:
    """nudge: by which part of itself every weight is moved at first, up or down."""
    fresh(device)
    recipe = options.recipe(path.precision)
    state = options.state(name, recipe, Distributed(0, 1, device, initialized=path.joined), dropout=dropout)
    set_backend(state.model, options.backend)
    if nudge:
        with torch.no_grad():
            for parameter in state.model.parameters():
                parameter.mul_(1 + nudge * torch.randn_like(parameter).sign())
    yield path.step(recipe.train, state, options.objective(recipe))


def _device(batches: list[Batch]) -> torch.device:
    return next(iter(batches[0].features.values())).device


def _compare_with_unary(rows: list[Row], models: list[str]) -> None:
    """The same path, the same run."""
    if UNARY not in models:
        return
    unary = {(row["path"], row["precision"]): row for row in rows if row["model"] == UNARY}
    for row in rows:
        other = unary.get((row["path"].removesuffix(", joined"), row["precision"]), row)
        if row["correct"] and other["correct"]:
            row["time_to_unary"] = f"{float(row['ms']) / float(other['ms']):.3f}"
            if row["peak_gb"] and other["peak_gb"]:
                row["memory_to_unary"] = f"{float(row['peak_gb']) / float(other['peak_gb']):.3f}"


def _compare_curves(options: Options, name: str, paths: list[PathOption], device: torch.device, out: Path) -> None:
    """Plain and captured losses over many steps, without dropout; and plain ones from weights that differ in rounding.

    The last tell how far training itself amplifies a difference that no implementation can avoid.
    """
    batches = options.batches(name, device, 4)
    chosen = [path for path in paths if path.name in ("plain", "captured")]
    curves = {(p.name, p.precision): _losses(options, name, p, batches, options.compare) for p in chosen}
    curves["plain, nudged", "float32"] = _losses(options, name, chosen[0], batches, options.compare, nudge=ROUNDING)
    plain = curves["plain", "float32"]
    rows: list[Row] = []
    for (path_name, precision), curve in curves.items():
        differences = [abs(a - b) / abs(b) for a, b in zip(curve, plain, strict=True)]
        near = next((step for step, d in enumerate(differences) if d > ALLOWED["float32"]), len(curve))
        say(
            f"{name}, {path_name}, {precision}: over {options.compare} steps, from a loss of {curve[0]:.3f} to "
            f"{curve[-1]:.3f}, within {max(differences):.2g} of the plain float32 step, {near} steps within 0.001"
        )
        rows.append(
            conditions(device)
            | {"model": name, "path": path_name, "precision": precision, "tf32": options.tf32}
            | {f.name: getattr(options, f.name) for f in fields(Sizes)}
            | {"compared": options.compare, "first_loss": f"{curve[0]:.4f}", "last_loss": f"{curve[-1]:.4f}"}
            | {"within": f"{max(differences):.2g}", "steps_within_0.001": near}
        )
    write_rows(out, rows, (*KEYS, "tf32", "compared"))


@contextmanager
def _process_group(wanted: bool, device: torch.device) -> Iterator[None]:
    if not wanted:
        yield
        return
    if torch.distributed.is_initialized():
        raise UserError("a process group exists already: run this benchmark in one process of its own")
    torch.distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()
