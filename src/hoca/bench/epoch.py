"""An epoch of MSR-VTT's shape through the whole loop: batches made, copied and learned from, losses looked at."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from hoca.bench import Row, conditions, write_rows
from hoca.bench.workload import RandomVideos, Sizes, all_alone, fresh
from hoca.data import Batches
from hoca.progress import say
from hoca.training.overlap import AsyncScalars, prefetch
from hoca.training.step import CapturedStep, StaticStep

if TYPE_CHECKING:
    from hoca.bench.train import Options

EPOCHS = 2  # of which the first meets each shape of batch for the first time
KEYS = ("model", "path", "precision", "epoch", "captions", "dataset_videos")


def epoch_rows(options: Options, lengths: np.ndarray, device: torch.device, out: Path) -> None:
    """bf16, with dropout; the words of each caption are as given, what they are is random."""
    dataset = RandomVideos(options, lengths[:, : options.epoch_captions], device)
    rows: list[Row] = []
    for name in options.models:
        fresh(device)
        recipe = options.recipe("bf16", captions=options.epoch_captions)
        state = options.state(name, recipe, all_alone(device))
        batches = Batches(
            dataset,
            "train",
            state.model.vocabulary,
            batch_size=recipe.train.batch_size,
            captions_per_video=recipe.train.captions_per_video,
            max_words=options.words,
        )
        captured: type[StaticStep] = CapturedStep if device.type == "cuda" else StaticStep
        step = captured(recipe.train, state, options.objective(recipe))
        gradients = sum(parameter.numel() * parameter.element_size() for parameter in state.model.parameters())
        for epoch in range(EPOCHS):
            seconds, loss = _epoch(step, batches, epoch, device)
            memory = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
            say(f"{name}, bf16, epoch {epoch + 1} of {len(lengths)} videos: {seconds:.2f} s, loss {loss:.3f}")
            rows.append(
                conditions(device)
                | {"model": name, "path": "captured", "precision": "bf16", "epoch": epoch + 1}
                | {f.name: getattr(options, f.name) for f in fields(Sizes)}
                | {"captions": options.epoch_captions, "dataset_videos": len(lengths), "batches": len(batches)}
                | {"padding": f"{batches.padding():.3f}", "shapes": step.shapes, "loss": f"{loss:.4f}"}
                | {"seconds": f"{seconds:.3f}", "peak_gb": memory and f"{memory:.2f}"}
                | {"gradient_bytes": gradients}
            )
        write_rows(out, rows, KEYS)


def _epoch(step: StaticStep, batches: Batches, epoch: int, device: torch.device) -> tuple[float, float]:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begun = time.perf_counter()
    batches.set_epoch(epoch)
    summed, before = 0.0, None
    for batch in prefetch(iter(batches), device):
        loss = AsyncScalars(step(batch, 1e-4)["loss"][None])
        summed += before.tolist()[0] if before is not None else 0.0
        before = loss
    summed += before.tolist()[0] if before is not None else 0.0
    return time.perf_counter() - begun, summed / sum(len(video.captions) for video in batches.videos)
