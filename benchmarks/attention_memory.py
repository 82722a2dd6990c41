"""What one group of three modalities allocates at the paper's size, forward and backward, against B·L·T·D elements.

    python benchmarks/attention_memory.py                    # CPU: needs about 3 GB
    python benchmarks/attention_memory.py --device cuda      # the fused kernels too, and the allocator's own peak

Each tensor is seen as it is made (hoca.ops.allocations). The reference is counted on the meta device, which computes
nothing: its order-3 products would need tens of gigabytes. Rows go to results/attention-memory.csv, in place of those
of the same device, version and sizes. The file keeps times of GPUs only: a CPU's tell of the machine, not of the code.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from hoca import ops
from hoca.files import replacing
from hoca.ops.allocations import AllocationWatch

RESULTS = Path(__file__).resolve().parent.parent / "results" / "attention-memory.csv"
UNLIMITED = 1 << 60


@dataclass
class Row:
    device: str
    torch: str
    dtype: str
    batch: int
    words: int
    steps: int
    size: int
    rank: int | str
    attention: str
    backend: str
    chunks: str
    largest_elements: int
    bound_elements: int  # B·L·T·D
    largest_made_by: str
    peak_bytes: int
    allocator_peak_bytes: int | str
    seconds: str


CONDITIONS = [field.name for field in fields(Row)][:11]


def main() -> None:
    options = parse_options()
    rows = [
        measure(options, "exact", "contracted", chunked=False),
        measure(options, "exact", "contracted", chunked=True),
        measure(options, "low_rank", "contracted", chunked=False),
        measure(options, "exact", "reference", chunked=False),
    ]
    if options.device == "cuda":
        rows += [measure(options, attention, "fused", chunked=False) for attention in ("exact", "low_rank")]
    write(options.out, rows)
    if any(row.backend == "contracted" and row.largest_elements > row.bound_elements for row in rows):
        sys.exit("a contraction made a tensor of more than B·L·T·D elements")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--steps", type=int, default=80, help="of each of the three modalities")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--workspace", type=int, default=1 << 30, help="bytes, for the chunked row")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def measure(options: argparse.Namespace, attention: str, backend: str, *, chunked: bool) -> Row:
    device = torch.device("meta" if backend == "reference" else options.device)
    step = forward_and_backward(options, attention, backend, device)
    with ops.workspace(options.workspace if chunked else UNLIMITED):
        with AllocationWatch() as watch:
            step()
        allocator_peak: int | str = ""
        if device.type == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            step()
            allocator_peak = torch.cuda.max_memory_allocated() - before
        seconds = "" if device.type == "meta" else f"{median_seconds(step, device):.5f}"
    row = Row(
        device=torch.cuda.get_device_name() if device.type == "cuda" else device.type,
        torch=torch.__version__,
        dtype="float32",
        batch=options.batch,
        words=options.words,
        steps=options.steps,
        size=options.size,
        rank=options.rank if attention == "low_rank" else "",
        attention=attention,
        backend=backend,
        chunks=f"within {options.workspace} bytes" if chunked else "one",
        largest_elements=watch.largest,
        bound_elements=options.batch * options.words * options.steps * options.size,
        largest_made_by=watch.largest_made_by,
        peak_bytes=watch.peak,
        allocator_peak_bytes=allocator_peak,
        seconds=seconds if device.type == "cuda" else "",
    )
    print(
        f"{attention} {backend} (chunks: {row.chunks}): largest tensor {row.largest_elements:,} elements = "
        f"{row.largest_elements / row.bound_elements:.2f} B·L·T·D ({row.largest_made_by}), "
        f"peak {row.peak_bytes / 2**30:.2f} GiB, " + (f"{seconds} s" if seconds else "counted, not computed"),
        flush=True,
    )
    return row


def forward_and_backward(
    options: argparse.Namespace, attention: str, backend: str, device: torch.device
) -> Callable[[], None]:
    torch.manual_seed(0)

    def normal(*shape: int) -> list[Tensor]:
        return [torch.randn(shape, device=device, requires_grad=True) for _ in range(3)]

    queries = normal(options.batch, options.words, options.size)
    keys = normal(options.batch, options.steps, options.size)
    weights = normal(options.steps, options.steps)
    factors, channels = normal(options.rank, options.steps), normal(options.size)
    masks = [torch.ones(options.batch, options.steps, dtype=torch.bool, device=device) for _ in range(3)]

    def step() -> None:
        if attention == "exact":
            scores = ops.exact_scores(queries, keys, weights, masks, backend=backend)
            inputs = [*queries, *keys, *weights]
        else:
            scores = ops.low_rank_scores(queries, keys, factors, channels, masks, backend=backend)
            inputs = [*queries, *keys, *factors, *channels]
        torch.autograd.grad(scores, inputs, [torch.ones_like(s) for s in scores])

    return step


def median_seconds(step: Callable[[], None], device: torch.device) -> float:
    """Of one forward and backward pass that follows others, when the device has finished it."""
    seconds = []
    for _ in range(20 if device.type == "cuda" else 1):
        start = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def write(path: Path, rows: list[Row]) -> None:
    def conditions(row: dict[str, object]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in CONDITIONS)

    new: list[dict[str, object]] = [asdict(row) for row in rows]
    measured = {conditions(row) for row in new}
    kept: list[dict[str, object]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = [dict(row) for row in csv.DictReader(file) if conditions(dict(row)) not in measured]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *new])


if __name__ == "__main__":
    main()
