"""Scores of one group, forward and backward, on every path: word by word, contracted, fused.

    hoca bench attention                         # the paper's size: on a GPU about a minute
    hoca bench attention words=300 precisions='[bf16]' word_by_word=false
    TRITON_INTERPRET=1 hoca bench attention videos=1 words=2 steps=5 size=8 --device cpu     # that it runs, no times

`word by word` is attention as the paper's decoder meets it, one word at a time, launched as PyTorch launches it; exact
attention then forms the order-n tensor. The other paths take all words at once, and on a GPU are timed as a replayed
CUDA graph, as training runs them. Each path is first compared with float64, scores and gradients (`error`, the largest
‖difference‖ / ‖expected‖); without that there is no ratio. The limit is that of the special-function units, measured
in the same command: `tanh_per_second` counts each tanh of the formula once, however often it is computed. A CPU has
no fused path, unless Triton interprets it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from hoca import ops
from hoca.bench import (
    LEAST_CALLS,
    Row,
    Timing,
    conditions,
    measure,
    peak_memory,
    ratio,
    relative_error,
    replayed,
    write_rows,
)
from hoca.errors import UserError
from hoca.options import option
from hoca.progress import say

KINDS = ("unary", "low_rank", "exact")
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}
ALLOWED = {"float32": 1e-5, "bf16": 1e-2}
TOGETHER = 10  # calls in a graph
KEYS = ("attention", "modalities", "path", "precision", "direction", "videos", "words", "steps", "size", "rank")


@dataclass(frozen=True)
class Options:
    kinds: list[str] = option(list(KINDS), "of attention")
    precisions: list[str] = option(list(PRECISIONS), "of queries and keys")
    modalities: int = option(3, "of the group; unary attention has one", least=1)
    videos: int = option(25, "in a batch", least=1)
    words: int = option(30, "of each video's caption", least=1)
    steps: int = option(80, "of each modality", least=1)
    size: int = option(512, "of the attention's common space", least=1)
    rank: int = option(1, "of low-rank attention", least=1)
    word_by_word: bool = option(True, "measure the paper's own order of work, too")
    calls: int = option(10, "timings of each path", least=LEAST_CALLS)

    def __post_init__(self) -> None:
        for name, known in (("kinds", KINDS), ("precisions", tuple(PRECISIONS))):
            for value in getattr(self, name):
                if value not in known:
                    raise UserError(f"{name}: {value!r} is unknown, choose among {', '.join(known)}")


@dataclass
class RandomGroup:
    """Random arguments as a model makes them: parameters in float32, queries and keys views of wider tensors."""

    kind: str
    queries: list[Tensor]
    keys: list[Tensor]
    parameters: list[Tensor]  # channels; factors and channels; weights
    masks: list[Tensor]

    @classmethod
    def random(cls, options: Options, kind: str, dtype: torch.dtype, device: torch.device) -> RandomGroup:
        generator = torch.Generator(device).manual_seed(0)
        count = 1 if kind == "unary" else options.modalities

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, device=device)

        def slot(rows: int) -> Tensor:
            wide = normal(options.videos, rows, 2, options.size).to(dtype)
            return wide[:, :, 1].requires_grad_()

        steps, size = options.steps, options.size
        channels = [normal(size) * size**-0.5 for _ in range(count)]
        factors = [normal(options.rank, steps) * steps**-0.5 for _ in range(count)]
        weights = [normal(*[steps] * (count - 1)) * steps ** (-0.5 * (count - 1)) for _ in range(count)]
        chosen = {"unary": channels, "low_rank": factors + channels, "exact": weights}[kind]
        lengths = torch.randint(steps // 2 + 1, steps + 1, (count, options.videos), generator=generator, device=device)
        return cls(
            kind,
            [slot(options.words) for _ in range(count)],
            [slot(steps) for _ in range(count)],
            [parameter.requires_grad_() for parameter in chosen],
            [torch.arange(steps, device=device) < length[:, None] for length in lengths],
        )

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.queries, *self.keys, *self.parameters]

    def double(self) -> RandomGroup:
        def doubled(tensors: Sequence[Tensor]) -> list[Tensor]:
            return [tensor.detach().double().requires_grad_() for tensor in tensors]

        return RandomGroup(self.kind, doubled(self.queries), doubled(self.keys), doubled(self.parameters), self.masks)

    def scores(self, backend: str, word: slice = slice(None)) -> list[Tensor]:
        queries = [query[:, word] for query in self.queries]
        parameters = [p.to(queries[0].dtype) for p in self.parameters] if backend != "fused" else self.parameters
        if self.kind == "unary":
            return [ops.unary_scores(queries[0], self.keys[0], parameters[0], self.masks[0], backend=backend)]
        if self.kind == "exact":
            return ops.exact_scores(queries, self.keys, parameters, self.masks, backend=backend)
        count = len(queries)
        return ops.low_rank_scores(
            queries, self.keys, parameters[:count], parameters[count:], self.masks, backend=backend
        )

    def word_by_word(self) -> list[Tensor]:
        backend = "contracted" if self.kind == "low_rank" else "reference"
        words = [self.scores(backend, slice(w, w + 1)) for w in range(self.queries[0].shape[1])]
        return [torch.cat(scores, dim=1) for scores in zip(*words, strict=True)]


def run(options: Options, *, device: torch.device, out: Path) -> None:
    limit = _limit(device)
    fused = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    if not fused:
        say("the fused path needs a GPU: the others are measured")
    rows: list[Row] = []
    for kind in options.kinds:
        slowest: dict[str, Timing] = {}
        for precision in options.precisions:
            group = RandomGroup.random(options, kind, PRECISIONS[precision], device)
            backends = ("contracted", "fused") if fused else ("contracted",)
            paths: dict[str, Callable[[], list[Tensor]]] = {name: partial(group.scores, name) for name in backends}
            if options.word_by_word and precision == "float32":
                paths = {"word by word": group.word_by_word} | paths
            expected = _results(group.double(), "contracted")
            contracted: dict[str, Timing] = {}
            for path, scores in paths.items():
                error = _error(_results_of(group, scores), expected)
                correct = error <= ALLOWED[precision]
                for direction, call in _calls(group, scores).items():
                    graph = path != "word by word"
                    timing = _measure(call, device, options.calls, graph=graph)
                    if path == "word by word":
                        slowest[direction] = timing
                    if path == "contracted":
                        contracted[direction] = timing
                    tanh = len(group.keys) * options.videos * options.words * options.steps * options.size
                    rate = tanh / timing.median
                    row = conditions(device) | {
                        "attention": kind,
                        "modalities": len(group.keys),
                        "path": path,
                        "precision": precision,
                        "direction": direction,
                        "videos": options.videos,
                        "words": options.words,
                        "steps": options.steps,
                        "size": options.size,
                        "rank": options.rank if kind == "low_rank" else "",
                        "error": f"{error:.2g}",
                        **timing.columns(),
                        "peak_bytes": peak_memory(call, device),
                        "tanh_per_second": f"{rate:.3g}" if device.type == "cuda" else "",
                        "limit_per_second": f"{limit:.3g}" if limit else "",
                        "share_of_limit": f"{rate / limit:.3f}" if limit and direction == "forward" else "",
                        "times_word_by_word": ratio(slowest[direction], timing, correct=correct) if slowest else "",
                        "times_contracted": ratio(contracted[direction], timing, correct=correct) if contracted else "",
                    }
                    rows.append(row)
                    say(
                        f"{kind:8} {precision:7} {path:12} {direction:8} {row['ms']:>8} ms  error {row['error']:>7}"
                        f"  of the limit {row['share_of_limit'] or '-':>5}  × word by word {row['times_word_by_word']}"
                    )
            write_rows(out, rows, KEYS)


def _results_of(group: RandomGroup, scores: Callable[[], list[Tensor]]) -> list[Tensor]:
    """The scores without the padding, and the gradients of an uneven sum of them."""
    found = [s.masked_fill(~mask[:, None], 0.0) for s, mask in zip(scores(), group.masks, strict=True)]
    weights = [torch.linspace(-1, 2, s.numel(), device=s.device).reshape(s.shape).cos().to(s.dtype) for s in found]
    return [*found, *torch.autograd.grad(found, group.tensors, weights)]


def _results(group: RandomGroup, backend: str) -> list[Tensor]:
    return _results_of(group, lambda: group.scores(backend))


def _error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    errors = torch.tensor([relative_error(f, e) for f, e in zip(found, expected, strict=True)])
    return float(errors.max())  # NaN where there is one


def _calls(group: RandomGroup, scores: Callable[[], list[Tensor]]) -> dict[str, Callable[[], object]]:
    def forward() -> object:
        with torch.no_grad():
            return scores()

    def both() -> object:
        found = scores()
        return torch.autograd.grad(found, group.tensors, [torch.ones_like(s) for s in found])

    return {"forward": forward, "both": both}


def _measure(call: Callable[[], object], device: torch.device, calls: int, *, graph: bool) -> Timing:
    if device.type != "cuda" or not graph:
        return measure(call, device, calls=calls, warmup=1, at_most=3.0)
    timing = measure(replayed(call, device, TOGETHER), device, calls=calls, warmup=1, at_most=3.0)
    return Timing(timing.median / TOGETHER, timing.low / TOGETHER, timing.high / TOGETHER, timing.calls)


def _limit(device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    from hoca.bench.special_functions import special_functions_per_second

    limit = special_functions_per_second(device)
    say(f"special-function operations: {limit:.3g} a second")
    return limit
