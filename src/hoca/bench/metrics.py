"""How fast captions are scored again and again against the same references, as validation and reward training do.

hoca bench metrics                 # 2,990 videos with 20 references each, on this machine's processor
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from hoca.bench import LEAST_CALLS, Row, conditions, measure, write_rows
from hoca.errors import UserError
from hoca.metrics import ALL, Evaluator
from hoca.options import option
from hoca.progress import say

SENTENCE = (
    "a the man woman dog cat child band car horse player two some red small big on in near with and of to is are was "
    "runs sings plays talks cooks drives jumps walks shows holds eats guitar ball food stage road kitchen water field"
)


@dataclass(frozen=True)
class Options:
    videos: int = option(2990, "with a caption each to score", least=1)
    references: int = option(20, "of each video", least=1)
    words: int = option(9, "of a caption, 4 more or fewer", least=5)
    calls: int = option(3, "timings of each metric", least=LEAST_CALLS)


def run(options: Options, *, device: torch.device, out: Path) -> None:
    """The processor is what is measured, whatever the device."""
    drawn, words = random.Random(0), SENTENCE.split()

    def caption() -> str:
        return " ".join(drawn.choices(words, k=drawn.randint(options.words - 4, options.words + 4)))

    references = {video: [caption() for _ in range(options.references)] for video in range(options.videos)}
    candidates = {video: caption() for video in references}
    evaluator = Evaluator(references)
    cpu = torch.device("cpu")
    rows: list[Row] = []
    for metrics in (("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"), ("ROUGE-L",), ("CIDEr",), ("METEOR",), ALL):
        name = "all" if metrics == ALL else metrics[-1]
        try:
            call = partial(evaluator.evaluate, candidates, metrics)
            timing = measure(call, cpu, calls=options.calls, warmup=1)
        except UserError as error:
            say(f"{name} is left out: {error}")
            continue
        say(f"{name}: {options.videos / timing.median:.0f} captions a second")
        rows.append(
            conditions(cpu)
            | {"metric": name, "videos": options.videos, "references": options.references, "words": options.words}
            | timing.columns()
            | {"captions_per_second": f"{options.videos / timing.median:.0f}"}
        )
    write_rows(out, rows, ("metric", "videos", "references", "words"))
