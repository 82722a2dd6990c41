"""How an extraction runs; none of it changes what the features are."""

from __future__ import annotations

from dataclasses import dataclass, field

from hoca.media import DecodeLimits
from hoca.threads import cores


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
        return self.workers or min(32, cores())
