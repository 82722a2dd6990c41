"""Features of videos: how they are made, extraction, and the store that keeps them."""

from hoca.features.extract import Extracted, extract, of_clip
from hoca.features.specification import light as light_specification
from hoca.features.store import FeatureStore, Specification

__all__ = ["Extracted", "FeatureStore", "Specification", "extract", "light_specification", "of_clip"]
