"""Video captioning with high-order cross-modal attention.

captioner = hoca.load("runs/binding")
print(captioner.caption("clip.mp4").text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoca.captioning import Caption, VideoCaptioner, load

__version__ = "0.1.0"
__all__ = ["Caption", "VideoCaptioner", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """`hoca.load` and its types are imported when asked for: `import hoca.metrics` needs no torch."""
    if name in ("Caption", "VideoCaptioner", "load"):
        from hoca import captioning

        return getattr(captioning, name)
    raise AttributeError(f"module 'hoca' has no attribute {name!r}")
