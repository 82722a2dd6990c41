"""Section 4.3 of the paper as a measurement: memory and time against the number of modalities, the steps, the rank.

    hoca bench complexity                       # also draws docs/complexity.png
    hoca bench complexity size=512 videos=25 --device cuda

`formula` is the paper's count of elements for one word of one video, from the output of tanh on: the trainable
variables and what each layer gives. `largest` and `peak_bytes` are what forward and backward allocate for all words and
videos, each tensor seen as it is made. `literal` is the paper's own order of work, which forms the order-n tensor.
Times and the fused path need a GPU; a size that needs more than `most` bytes is counted there too, but not run. What
is not fused is counted without being computed. A second table, `…-exponents.csv`, has the slopes of all of these over
the upper half of each axis, both in logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hoca import ops
from hoca.bench import CONDITIONS, Row, conditions, measure, replayed, write_rows
from hoca.errors import UserError
from hoca.ops.allocations import AllocationWatch
from hoca.options import option
from hoca.progress import say

KEYS = ("axis", "attention", "path", "modalities", "steps", "rank", "videos", "words", "size")
UNLIMITED = 1 << 60
# The paper's own order of work, which its formulas count.
PAPERS = (("contracted", "unary"), ("contracted", "low_rank"), ("literal", "exact"))


@dataclass(frozen=True)
class Options:
    modalities: list[int] = option([2, 3, 4, 5, 6], "numbers of them to measure")
    steps: list[int] = option([10, 20, 40, 80, 160, 320, 640], "of each modality, to measure")
    ranks: list[int] = option([1, 2, 4, 8, 16], "of low-rank attention, to measure")
    base_modalities: int = option(3, "where steps and rank are varied", least=1)
    base_steps: int = option(20, "where modalities and rank are varied", least=1)
    base_rank: int = option(1, "where modalities and steps are varied", least=1)
    videos: int = option(25, "in a batch", least=1)
    words: int = option(30, "of each video's caption", least=1)
    size: int = option(512, "of the attention's common space", least=1)
    most: float = option(40e9, "bytes above which nothing is run", least=0)
    plot: str | None = option("docs/complexity.png", "the figure to draw; null = none")

    def __post_init__(self) -> None:
        for name in ("modalities", "steps", "ranks"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise UserError(f"{name} must be a list of numbers of at least 1")


@dataclass(frozen=True)
class Case:
    axis: str  # what is varied
    attention: str
    path: str
    modalities: int
    steps: int
    rank: int

    def formula(self, size: int) -> int:
        """Elements for one word of one video, as the paper counts them (section 4.3)."""
        n, t, k, d = self.modalities, self.steps, self.rank, size
        if self.attention == "unary":
            return n * t + d
        if self.attention == "exact":
            return t**n + n * t ** (n - 1) + n * t
        return n * t * (k + d + 1) + (n * k + n + 1) * d


def run(options: Options, *, device: torch.device, out: Path) -> None:
    rows: list[Row] = []
    for case in _cases(options, fused=device.type == "cuda"):
        watch = _count(case, options, device)
        ms = _time(case, options, device, watch.peak) if device.type == "cuda" else ""
        row = conditions(device) | {
            "axis": case.axis,
            "attention": case.attention,
            "path": case.path,
            "modalities": case.modalities,
            "steps": case.steps,
            "rank": case.rank if case.attention == "low_rank" else "",
            "videos": options.videos,
            "words": options.words,
            "size": options.size,
            "formula": case.formula(options.size),
            "largest": watch.largest,
            "peak_bytes": watch.peak,
            "ms": ms,
        }
        rows.append(row)
        write_rows(out, [row], KEYS)  # one by one: what is measured stays if the rest is stopped
        say(
            f"{case.axis:10} {case.attention:8} {case.path:10} N {case.modalities} T {case.steps:3} K {case.rank:2}"
            f"  formula {row['formula']:>13,}  peak {watch.peak / 1e9:>12,.2f} GB  {ms or '-'} ms"
        )
    write_rows(out.with_name(f"{out.stem}-exponents{out.suffix}"), exponents(rows), ("axis", "attention", "path"))
    if options.plot:
        draw(rows, Path(options.plot))
        say(f"drawn in {options.plot}")


def _cases(options: Options, *, fused: bool) -> list[Case]:
    base = Case("", "", "", options.base_modalities, options.base_steps, options.base_rank)
    axes = {"modalities": options.modalities, "steps": options.steps, "rank": options.ranks}
    paths = [("unary", "contracted"), ("low_rank", "contracted"), ("exact", "literal"), ("exact", "contracted")]
    paths += [("unary", "fused"), ("low_rank", "fused"), ("exact", "fused")] if fused else []
    return [
        replace(base, axis=axis, attention=attention, path=path, **{axis: value})
        for axis, values in axes.items()
        for value in values
        for attention, path in paths
        if axis != "rank" or attention == "low_rank"
    ]


def _pass(case: Case, options: Options, device: torch.device | str) -> Callable[[], None]:
    """Forward and backward of the scores of all words and videos."""
    n, t, shape = case.modalities, case.steps, (options.videos, options.words, options.size)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, device=device).requires_grad_()

    queries = [normal(*shape) for _ in range(n)]
    keys = [normal(shape[0], t, shape[2]) for _ in range(n)]
    channels = [normal(options.size) for _ in range(n)] if case.attention != "exact" else []
    factors = [normal(case.rank, t) for _ in range(n)] if case.attention == "low_rank" else []
    weights = [normal(*[t] * (n - 1)) for _ in range(n)] if case.attention == "exact" else []
    learned = weights or [*factors, *channels]
    backend = "reference" if case.path == "literal" else case.path

    def forward_and_backward() -> None:
        if case.attention == "unary":
            tensors = zip(queries, keys, channels, strict=True)
            scores = [ops.unary_scores(q, k, c, backend=backend) for q, k, c in tensors]
        elif case.attention == "low_rank":
            scores = ops.low_rank_scores(queries, keys, factors, channels, backend=backend)
        else:
            scores = ops.exact_scores(queries, keys, weights, backend=backend)
        torch.autograd.grad(scores, [*queries, *keys, *learned], [torch.ones_like(s) for s in scores])

    return forward_and_backward


def _count(case: Case, options: Options, device: torch.device) -> AllocationWatch:
    """On the meta device, which computes nothing; fused kernels have to run, where contracting needs at most `most`."""
    fused = case.path == "fused"
    with ops.workspace(UNLIMITED), AllocationWatch() as watch:
        _pass(replace(case, path="contracted") if fused else case, options, "meta")()
    if not fused or watch.peak > options.most:
        return watch
    with ops.workspace(UNLIMITED), AllocationWatch() as watch:
        _pass(case, options, device)()
    return watch


def _time(case: Case, options: Options, device: torch.device, peak: int) -> str:
    """Milliseconds of a replayed CUDA graph."""
    if peak > options.most:
        return ""
    with ops.workspace(UNLIMITED):
        call = replayed(_pass(case, options, device), device)
    return f"{1e3 * measure(call, device, calls=5, warmup=1, at_most=3.0).median:.4g}"


def exponents(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Slopes of the formula, of bytes and of milliseconds over an axis, in logarithms. All rows are of one device.

    They are of the upper half of the axis, and for times of the upper half of what was run, which ends at `ms_to`.
    """
    found: list[Row] = []
    for axis, attention, path in dict.fromkeys((row["axis"], row["attention"], row["path"]) for row in rows):
        mine = [row for row in rows if (row["axis"], row["attention"], row["path"]) == (axis, attention, path)]
        mine.sort(key=lambda row: int(row[axis]))
        timed = [row for row in mine if row["ms"]]
        found.append(
            {name: mine[-1][name] for name in CONDITIONS}
            | {"axis": axis, "attention": attention, "path": path, "to": mine[-1][axis]}
            | {"formula": _slope(mine, axis, "formula"), "bytes": _slope(mine, axis, "peak_bytes")}
            | {"ms_to": timed[-1][axis] if timed else "", "ms": _slope(timed, axis, "ms")}
        )
    return found


def _slope(rows: Sequence[Mapping[str, Any]], axis: str, column: str) -> str:
    """Of the upper half of the rows, which are in the order of the axis; nothing where there are fewer than two."""
    half = rows[-max(2, math.ceil(len(rows) / 2)) :]
    if len(half) < 2:
        return ""
    points = [(math.log(float(row[axis])), math.log(float(row[column]))) for row in half]
    return f"{statistics.linear_regression(*zip(*points, strict=True)).slope:.2f}"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Memory beside the paper's formulas and, where it was measured, time. The rows are those of one device."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = {
        ("unary", "contracted"): "unary",
        ("low_rank", "contracted"): "Low-Rank HOCA",
        ("exact", "literal"): "HOCA, order-n tensor",
        ("exact", "contracted"): "HOCA, contracted",
        ("unary", "fused"): "unary, fused",
        ("low_rank", "fused"): "Low-Rank HOCA, fused",
        ("exact", "fused"): "HOCA, fused",
    }
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    scales = {"peak_bytes": 1e-9} | ({"ms": 1.0} if any(row["ms"] for row in rows) else {})
    size = 4.2 * len(axes), 0.8 + 3.0 * len(scales)
    figure, plots = pyplot.subplots(
        len(scales), len(axes), figsize=size, layout="constrained", sharey="row", squeeze=False
    )
    for line, (column, scale) in zip(plots, scales.items(), strict=True):
        for plot, axis in zip(line, axes, strict=True):
            for number, ((attention, way), name) in enumerate(names.items()):
                ours = [r for r in rows if (r["axis"], r["attention"], r["path"]) == (axis, attention, way)]
                chosen = [row for row in ours if row[column]]
                x, colour = [int(row[axis]) for row in chosen], f"C{number}"
                if chosen:
                    plot.plot(x, [scale * float(r[column]) for r in chosen], marker="o", label=name, color=colour)
                if chosen and column == "peak_bytes" and (way, attention) in PAPERS:
                    words = int(chosen[0]["videos"]) * int(chosen[0]["words"])
                    plot.plot(x, [4e-9 * words * int(row["formula"]) for row in chosen], linestyle=":", color=colour)
            plot.set(xlabel={"modalities": "modalities", "steps": "steps of each", "rank": "rank"}[axis], yscale="log")
            ticks = sorted({int(row[axis]) for row in rows if row["axis"] == axis})
            if axis == "steps":
                plot.set_xscale("log")
                plot.set_xticks([], minor=True)
            plot.set_xticks(ticks, [str(tick) for tick in ticks])
    plots[0][0].set_ylabel("GB, forward and backward\n(dotted: the paper's formula)")
    if len(scales) > 1:
        plots[1][0].set_ylabel("ms, forward and backward")
    lines, labels = plots[0][0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=4, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
