"""Video captioning with high-order cross-modal attention.

captioner = hoca.load("runs/binding")
print(captioner.caption("clip.mp4").text)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoca.captioning import Caption, VideoCaptioner, load

__version__ = "0.1.0"
__all__ = ["Caption", "VideoCaptioner", "__version__", "load"]

_PARTS = (
    *("assets", "checkpoint", "data", "evaluation", "explain", "features", "generation", "media", "metrics"),
    *("models", "networks", "ops", "text", "training"),
)


def __getattr__(name: str) -> Any:
    """Parts are imported when asked for, so that `import hoca` is quick and `hoca.metrics` needs no torch."""
    if name in _PARTS:
        return importlib.import_module(f"hoca.{name}")
    if name in __all__:
        return getattr(importlib.import_module("hoca.captioning"), name)
    raise AttributeError(f"module 'hoca' has no attribute {name!r}")
