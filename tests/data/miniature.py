"""Made-up MSR-VTT clips in files as the research data has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hoca.data import msrvtt

CLIPS, SILENT = 36, (7, 32)  # all of them official-train; two neighbouring ones have one source
OTHERS = {"validate": 1, "test": 1}
THINGS = ("man", "woman", "dog", "cat", "car", "boat")


def write_clips(folder: Path) -> Path:
    """Annotations and features of clips of two categories; a clip's caption tells its number and kind of thing."""
    (folder / "msrvtt").mkdir(parents=True)
    names = "".join(f"kind {number}\t{number}\n" for number in range(20))
    (folder / "msrvtt" / "category.txt").write_text(names)
    numbers = iter(range(CLIPS + sum(OTHERS.values())))
    splits = {"train_val": {"train": CLIPS, "validate": OTHERS["validate"]}, "test": {"test": OTHERS["test"]}}
    for name, counts in splits.items():
        videos = [_video(next(numbers), split) for split, count in counts.items() for _ in range(count)]
        sentences = [
            {"video_id": row["video_id"], "sen_id": k, "caption": f"a {THINGS[row['id'] % 6]} is number {row['id']}"}
            for row in videos
            for k in range(2)
        ]
        annotation = {"videos": videos, "sentences": sentences}
        (folder / "msrvtt" / f"{name}_videodatainfo.json").write_text(json.dumps(annotation))
    random = np.random.default_rng(0)
    lengths = [0 if n in SILENT else 8 + n % 9 for n in range(CLIPS)]
    arrays: dict[str, Any] = {"ids": [f"video{n}" for n in range(CLIPS)], "audio_length": lengths}
    for name, (steps, width) in msrvtt.CLIP_SHAPES.items():
        arrays[name] = random.integers(256, size=(CLIPS, steps, width), dtype=np.uint8)
        arrays[f"{name}_scale"] = random.random(width, np.float32)
    np.savez(folder / "msrvtt" / "clip-features.npz", **arrays)
    return folder


def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the counts of the made-up data stand for the published ones."""
    counts = {"train": CLIPS, "validation": OTHERS["validate"], "test": OTHERS["test"]}
    monkeypatch.setattr(msrvtt, "VIDEOS", counts)
    monkeypatch.setattr(msrvtt, "CAPTIONS_EACH", 2)


def _video(number: int, split: str) -> dict[str, Any]:
    row = {"video_id": f"video{number}", "id": number, "split": split, "category": number % 2}
    return row | {"url": f"s{number // 2}", "start time": 0, "end time": 9}
