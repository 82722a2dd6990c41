"""How an extraction runs; none of it changes what the features are."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hoca.media import DecodeLimits


@dataclass(frozen=True)
class ExtractionSettings:
    device: str = "auto"  # auto, cpu, cuda
    precision: str = "auto"  # auto, float32, bf16
    workers: int | None = None  # local: processes that decode; ray: model processes
    batch: int | None = None  # videos that go through a network together
    limits: DecodeLimits = field(default_factory=DecodeLimits)

    @property
    def decoders(self) -> int:
        """Processes that decode on this machine: one per processor that this process may use, but not more than 32."""
        return self.workers or min(32, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
