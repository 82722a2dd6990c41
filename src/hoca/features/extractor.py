"""The extractor: networks loaded once, for any number of files."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hoca import media
from hoca.errors import UserError
from hoca.features.extract import Extracted, check
from hoca.features.specification import weights_file
from hoca.media.preview import decode_with_preview
from hoca.media.request import DecodedVideo, Request

if TYPE_CHECKING:
    from hoca.features.network import Network


class Extractor:
    """Features as a specification asks for them; weights that are missing are fetched when it is made."""

    def __init__(
        self,
        specification: Mapping[str, Any],
        *,
        device: str = "cpu",
        precision: str = "auto",
        limits: media.DecodeLimits | None = None,
    ) -> None:
        self.specification = specification
        self.limits = limits
        self.backbones = check(specification)
        self.seconds: dict[str, float] = defaultdict(float)  # spent in each modality's network so far
        rates = {found.rate for found in self.backbones.values() if found.rate}
        if len(rates) > 1:
            raise UserError(f"the audio backbones want sound at different rates ({rates}): keep one of them")
        self.rate = rates.pop() if rates else None
        self.networks: dict[str, Network | None] = {
            name: self._network(name, device, precision) for name in self.backbones
        }

    def _network(self, name: str, device: str, precision: str) -> Network | None:
        found = self.backbones[name]
        if found.build is None:
            return None
        from hoca.devices import choose_device
        from hoca.features.network import PRECISIONS, Network

        if precision not in PRECISIONS:
            raise UserError(f"precision={precision!r} is unknown: choose among {', '.join(PRECISIONS)}")
        weights = weights_file(found, self.specification[name])
        return Network.load(found, weights, choose_device(device), precision)

    def request(self, path: Path | str) -> Request:
        """What to decode of a file."""
        pictures, seconds = {}, None
        for name, found in self.backbones.items():
            wanted = found.pictures(self.specification[name])
            if wanted is not None:
                pictures[name] = wanted
            else:
                seconds = found.seconds(self.specification[name])
        return Request(Path(path), pictures, self.rate, seconds)

    def features(self, clips: Sequence[DecodedVideo]) -> list[Extracted]:
        """The features of decoded files, each network run over all of them."""
        made = [Extracted({}, {}, clip.duration) for clip in clips]
        for name, found in self.backbones.items():
            present = []
            for number, clip in enumerate(clips):
                why = found.lacking(clip)
                if why is None:
                    present.append(number)
                else:
                    made[number].absent[name] = why
            if not present:
                continue
            begun = time.perf_counter()
            values = found.run(
                self.networks[name], [clips[number] for number in present], name, self.specification[name]
            )
            self.seconds[name] += time.perf_counter() - begun
            for number, each in zip(present, values, strict=True):
                made[number].features[name] = np.ascontiguousarray(each, dtype=np.float32)
        for extracted in made:
            self._add_differences(extracted)
        return made

    def _add_differences(self, extracted: Extracted) -> None:
        """Modalities that are the difference of neighbouring steps of another one."""
        for name, how in self.specification.items():
            if (of := how.get("difference")) is None:
                continue
            if of in extracted.absent:
                extracted.absent[name] = extracted.absent[of]
            elif len(extracted.features[of]) == 1:
                extracted.absent[name] = "a single picture does not change"
            else:
                extracted.features[name] = np.diff(extracted.features[of], axis=0)

    def extract(self, path: Path | str, *, pictures: int = 0, limits: media.DecodeLimits | None = None) -> Extracted:
        """The features of one file, decoded in a process of its own, so that no file can harm this one.

        pictures: how many a preview of the file has; 0 = no preview is wanted. limits: in place of the extractor's own.
        """
        decoded, shown = self.decode(path, pictures=pictures, limits=limits)
        return replace(self.features([decoded])[0], preview=shown)

    def decode(
        self,
        path: Path | str,
        *,
        pictures: int = 0,
        limits: media.DecodeLimits | None = None,
        decoders: media.Decoders | None = None,
    ) -> tuple[DecodedVideo, media.Preview | None]:
        """What the networks need of a file, and a preview of it if that is to have pictures.

        decoders: processes to decode in, which have limits of their own; None = the extractor's one.
        """
        if decoders is None and limits is not None and limits != self.limits:
            with media.Decoders(workers=1, limits=limits) as others:
                return self.decode(path, pictures=pictures, decoders=others)
        decode = (decoders or self.decoders).decode
        if pictures:
            return decode_with_preview(self.request(path), decode, pictures)
        return decode(self.request(path)), None

    @cached_property
    def decoders(self) -> media.Decoders:
        """One decoding process, started at the first file and ended with the extractor."""
        return media.Decoders(workers=1, limits=self.limits)

    def close(self) -> None:
        """End the decoding process; the next file starts another."""
        if "decoders" in self.__dict__:
            self.__dict__.pop("decoders").close()

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
