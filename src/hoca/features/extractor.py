"""The extractor: networks loaded once, for any number of files."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hoca import media
from hoca.errors import UserError
from hoca.features.extract import Extracted, check
from hoca.features.specification import weights_file
from hoca.media.preview import decode_with_preview
from hoca.media.request import DecodedVideo, Request
from hoca.threads import free_cores, use_threads

if TYPE_CHECKING:
    from hoca.features.backbones.kinds import Later
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
        random_weights: bool = False,
    ) -> None:
        """random_weights: networks that have learned nothing, to measure their speed where no weights are."""
        self.specification = specification
        self.limits = limits
        self.backbones = check(specification)
        self.seconds: dict[str, float] = defaultdict(float)  # spent in each modality's network so far
        rates = {found.rate for found in self.backbones.values() if found.rate}
        if len(rates) > 1:
            raise UserError(f"the audio backbones want sound at different rates ({rates}): keep one of them")
        self.rate = rates.pop() if rates else None
        self._side_by_side = False
        self._networks: dict[str, Network | None] | None = None
        self._loading = threading.Lock()  # several threads may ask for the networks at once
        self._threads = threading.local()  # the stream of each
        self._weights = {
            name: None if random_weights else weights_file(found, specification[name])
            for name, found in self.backbones.items()
            if found.build
        }
        if self._weights:
            from hoca.devices import choose_device
            from hoca.features.network import PRECISIONS

            if precision not in PRECISIONS:
                raise UserError(f"precision={precision!r} is unknown: choose among {', '.join(PRECISIONS)}")
            self._device, self._precision = choose_device(device), precision

    @property
    def networks(self) -> dict[str, Network | None]:
        """The network of each backbone that has one, loaded when the first clip is decoded, or while it is."""
        from hoca.features.network import Network

        with self._loading:
            if self._networks is None:
                self._networks = {
                    name: Network.load(found, self._weights[name], self._device, self._precision)
                    if found.build
                    else None
                    for name, found in self.backbones.items()
                }
            return self._networks

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
        return self.begin(clips)()

    def begin(self, clips: Sequence[DecodedVideo]) -> Callable[[], list[Extracted]]:
        """As `features`; but on a GPU this only begins, and what it returns waits for the results.

        There each thread has a stream of its own, so that none waits for another's results.
        """
        if not any(network is not None and network.device.type == "cpu" for network in self.networks.values()):
            with self._own_stream():
                return self._begin(clips)
        with use_threads(1 if self._side_by_side else free_cores()):
            made = self._begin(clips)()
        return lambda: made

    def send(self, clip: DecodedVideo) -> DecodedVideo:
        """The clip with the pictures of its networks on the GPU, where there is one, and copies of its times and sound.

        Pictures of backbones without a network stay views of the memory that the clip was decoded into, and keep it.
        """
        if not self._weights or self._device.type != "cuda":
            return clip
        from hoca.features.transfer import upload_to

        there = {
            name: upload_to(self._device)(clip.pictures[name])
            for name, network in self.networks.items()
            if network is not None and name in clip.pictures
        }
        return replace(
            clip,
            pictures=clip.pictures | cast(dict[str, Any], there),
            times={name: times.copy() for name, times in clip.times.items()},
            waveform=None if clip.waveform is None else clip.waveform.copy(),
        )

    def _own_stream(self) -> AbstractContextManager[Any]:
        """The stream of this thread, where there is a GPU."""
        if not self._weights or self._device.type != "cuda":
            return nullcontext()
        import torch

        if not hasattr(self._threads, "stream"):
            self._threads.stream = torch.cuda.Stream(self._device)
            self._threads.stream.wait_stream(torch.cuda.default_stream(self._device))  # the weights are there
        return torch.cuda.stream(self._threads.stream)

    def _begin(self, clips: Sequence[DecodedVideo]) -> Callable[[], list[Extracted]]:
        made = [Extracted({}, {}, clip.duration) for clip in clips]
        begun: dict[str, tuple[list[int], Later]] = {}  # modality → which clips have it, and their features
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
            with self._timed(name):
                later = found.begin(
                    self.networks[name], [clips[number] for number in present], name, self.specification[name]
                )
            begun[name] = present, later

        def finish() -> list[Extracted]:
            for name, (present, later) in begun.items():
                with self._timed(name):
                    values = later()
                for number, each in zip(present, values, strict=True):
                    made[number].features[name] = np.ascontiguousarray(each, dtype=np.float32)
            for extracted in made:
                self._add_differences(extracted)
            return made

        return finish

    @contextmanager
    def _timed(self, modality: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[modality] += time.perf_counter() - begun

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
        part: tuple[float, float] | None = None,
    ) -> tuple[DecodedVideo, media.Preview | None]:
        """What the networks need of a file or of a part (start, end) of it, and a preview if that is to have pictures.

        decoders: processes to decode in, which have limits of their own; None = the extractor's one.
        """
        if decoders is None and limits is not None and limits != self.limits:
            with media.Decoders(workers=1, limits=limits) as others:
                return self.decode(path, pictures=pictures, decoders=others, part=part)
        decode = (decoders or self.decoders).decode
        request = replace(self.request(path), part=part)
        if pictures:
            return decode_with_preview(request, decode, pictures)
        return decode(request), None

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """On a CPU, let each core work on other pictures; not with motion, where a clip alone takes much memory."""
        networks = [network for network in self.networks.values() if network is not None]
        if not networks or self._device.type != "cpu" or any(b.kind == "motion" for b in self.backbones.values()):
            yield
            return
        from hoca.threads import thread_per_core

        with thread_per_core() as pool:
            self._side_by_side = True
            for network in networks:
                network.pool = pool
            try:
                yield
            finally:
                self._side_by_side = False
                for network in networks:
                    network.pool = None

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
