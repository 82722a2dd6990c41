"""Features of videos: backbones, how their features are specified and made, and the store that keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoca.features.backbones import BACKBONES, Backbone
from hoca.features.extract import Extracted, extract, of_clip
from hoca.features.specification import light as light_specification
from hoca.features.specification import parse_backbone, specify
from hoca.features.store import FeatureStore, Specification

if TYPE_CHECKING:
    from hoca.features.extractor import Extractor

__all__ = [
    "BACKBONES",
    "Backbone",
    "Extracted",
    "Extractor",
    "FeatureStore",
    "Specification",
    "extract",
    "light_specification",
    "of_clip",
    "parse_backbone",
    "specify",
]


def __getattr__(name: str) -> Any:
    """The extractor is imported when asked for: decoding processes import this package too."""
    if name == "Extractor":
        from hoca.features.extractor import Extractor

        return Extractor
    raise AttributeError(f"module 'hoca.features' has no attribute {name!r}")
