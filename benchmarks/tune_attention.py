"""Times of the fused kernels for tiles other than those they use.

    python benchmarks/tune_attention.py forward 3 words=2,4 lanes=8,16 warps=4,8
    python benchmarks/tune_attention.py backward 2 lanes=4,8 warps=1,2 --words-per-video 300

Needs a GPU. One line per combination: microseconds of a replayed CUDA graph, tanh a second, share of the limit of the
special-function units. The kernels are compiled anew for each, a few seconds apiece: `--jobs` compiles side by side.
`--out results/bench-attention-tiles.csv` keeps the lines as a table.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from hoca.bench import Row, conditions, write_rows
from hoca.bench.attention import PRECISIONS, Options, RandomGroup
from hoca.bench.special_functions import special_functions_per_second
from hoca.devices import capturing
from hoca.ops.fused import group as fused

GRAPH = 3  # calls in a graph
TILE = ("words", "lanes", "warps", "ahead", "unroll", "registers")
KEYS = ("direction", "modalities", "rank", "precision", "words_per_video", *TILE)


def main() -> None:
    options, tiles = parse_options()
    device = torch.device("cuda")
    combinations = list(itertools.product(*tiles.values()))
    if options.share is not None:
        combinations = combinations[options.share :: options.jobs]
    elif options.jobs > 1:  # the compiled kernels are found again in Triton's cache
        shares = [[*sys.argv, "--share", str(share)] for share in range(options.jobs)]
        running = [subprocess.Popen([sys.executable, *share], stdout=subprocess.DEVNULL) for share in shares]
        for process in running:
            process.wait()
    limit = special_functions_per_second(device)
    print(f"{options.direction}, {options.modalities} modalities, limit {limit:.3e} a second")
    for words in [int(words) for words in options.words_per_video.split(",")]:
        sizes = Options(modalities=options.modalities, words=words, rank=options.rank)
        kind = "unary" if options.modalities == 1 else "low_rank"
        group = RandomGroup.random(sizes, kind, PRECISIONS[options.precision], device)
        for values in combinations:
            tile = dict(zip(tiles, values, strict=True))
            measured = try_tile(group, sizes, options.direction, tile, limit)
            if options.out and measured and options.share is None:
                row = conditions(device) | {
                    **{"direction": options.direction, "modalities": options.modalities, "rank": options.rank},
                    **{"precision": options.precision, "words_per_video": words},
                    **{name: tile.get(name, "") for name in TILE},
                }
                write_rows(options.out, [row | measured], KEYS)


def try_tile(group: RandomGroup, sizes: Options, direction: str, change: dict[str, int], limit: float) -> Row:
    """Time and share of the limit, nothing of a tile that does not fit."""
    name = f"_{direction}_tile"
    used = getattr(fused, name)
    setattr(fused, name, lambda *sizes, **kind: replace(used(*sizes, **kind), **change))
    tanh = sizes.modalities * sizes.videos * sizes.words * sizes.steps * sizes.size
    measured: Row = {}
    try:
        microseconds = time_graph(work(group, direction))
        rate = tanh / microseconds * 1e6
        found = f"{microseconds:.1f} us  {rate:.3e} tanh/s  {rate / limit:.0%} of the limit"
        measured = {"us": f"{microseconds:.1f}", "share_of_limit": f"{rate / limit:.3f}"}
    except Exception as error:  # a tile that does not fit is a result too
        found = f"fails: {type(error).__name__}"
    finally:
        setattr(fused, name, used)
    print(f"{sizes.words} words", change, found, flush=True)
    return measured


def parse_options() -> tuple[argparse.Namespace, dict[str, list[int]]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("direction", choices=["forward", "backward"])
    parser.add_argument("modalities", type=int)
    parser.add_argument("tiles", nargs="*", metavar="NAME=VALUES", help=", ".join(TILE))
    parser.add_argument("--precision", choices=list(PRECISIONS), default="bf16")
    parser.add_argument("--words-per-video", default="30")
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    tiles = dict(item.split("=") for item in options.tiles)
    return options, {name: [int(value) for value in values.split(",")] for name, values in tiles.items()}


def work(group: RandomGroup, direction: str) -> Callable[[], object]:
    def forward() -> object:
        with torch.no_grad():
            return group.scores("fused")

    if direction == "forward":
        return forward
    scores = group.scores("fused")
    gradients = [torch.randn_like(s) for s in scores]
    return lambda: torch.autograd.grad(scores, group.tensors, gradients, retain_graph=True)


def time_graph(call: Callable[[], object]) -> float:
    """Microseconds of one call."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with capturing(graph, stream=torch.cuda.current_stream()):
        for _ in range(GRAPH):
            call()
    times = []
    for _ in range(7):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        times.append(1e3 * first.elapsed_time(last) / GRAPH)
    return statistics.median(times)


if __name__ == "__main__":
    # A graph is not captured from the default stream, and a backward pass runs on the stream of its forward pass.
    with torch.cuda.stream(torch.cuda.Stream()):
        main()
