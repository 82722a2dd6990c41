"""Which kernels a call spends a GPU's time in, and for how long the GPU has nothing to do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from hoca.files import replacing


def write_profile(call: Callable[[], object], out: Path, *, calls: int = 5, rows: int = 40) -> None:
    """A table of the kernels of `call`: milliseconds and launches per call, and their share of the busy time."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    spans: list[tuple[float, float]] = []
    spent: defaultdict[str, float] = defaultdict(float)
    launches: Counter[str] = Counter()
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spans.append((event.time_range.start, event.time_range.end))
            spent[event.name] += event.time_range.elapsed_us()
            launches[event.name] += 1
    busy, end, idle = 0.0, None, 0.0
    for begun, ended in sorted(spans):
        if end is not None and begun > end:
            idle += begun - end
        busy += max(0.0, ended - (begun if end is None else max(begun, end)))
        end = ended if end is None else max(end, ended)
    total = sum(spent.values())
    lines = [
        f"{calls} calls, per call: {busy / calls / 1e3:.3f} ms with a kernel at work, {idle / calls / 1e3:.3f} ms with "
        f"none, {total / calls / 1e3:.3f} ms of kernels in all, {len(spans) / calls:.0f} launches",
        "",
        f"{'ms':>9} {'share':>6} {'launches':>9}  kernel",
    ]
    for name, time in sorted(spent.items(), key=lambda item: -item[1])[:rows]:
        lines.append(f"{time / calls / 1e3:9.4f} {time / total:6.1%} {launches[name] / calls:9.1f}  {name[:110]}")
    with replacing(out) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
