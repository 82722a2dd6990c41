"""What the page and its API do with an upload: decode it within limits, caption it, explain the caption."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hoca import media
from hoca.captioning import Caption, VideoCaptioner, load
from hoca.errors import UserError, nearest
from hoca.explain import Explanation, collect, model_name
from hoca.features import Extractor

Stage = Callable[[str], None]
T = TypeVar("T")
WIDEST = 10  # beam


class Service:
    """Captions files with one of several models. Files are decoded side by side, captioned one at a time.

    All that torch does happens in one thread: each thread that it works in keeps memory of its own, and a server has
    many.
    """

    def __init__(self, models: Sequence[Path | str], limits: media.Limits, workers: int = 2) -> None:
        self.paths = {model_name(model): model for model in models}
        if len(self.paths) < len(models):
            raise UserError(f"two of the models are called alike ({', '.join(self.paths)}): rename one of the folders")
        self.decoders = media.Decoders(workers, limits)
        self._loaded: dict[str, tuple[VideoCaptioner, Extractor]] = {}
        self._extractors: dict[str, Extractor] = {}
        self._thread = ThreadPoolExecutor(1, "caption")
        self.model(next(iter(self.paths)))

    def __enter__(self) -> Service:
        self.decoders.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.decoders.__exit__(*error)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def model(self, name: str) -> tuple[VideoCaptioner, Extractor]:
        """A model and what makes its features, loaded when first asked for; models alike in features share those."""
        if name not in self.paths:
            raise UserError(f"there is no model {name!r} here: {nearest(name, self.paths)}")
        if name not in self._loaded:
            self._alone(lambda: self._load(name))
        return self._loaded[name]

    def _load(self, name: str) -> None:
        captioner = load(self.paths[name])
        kind = json.dumps(captioner.specification, sort_keys=True)
        if kind not in self._extractors:
            device = next(captioner.parameters()).device.type
            self._extractors[kind] = Extractor(captioner.specification, device=device)
        self._loaded[name] = captioner, self._extractors[kind]

    def caption(
        self, video: Path, model: str, beam: int, stage: Stage = lambda stage: None, *, pictures: int = 0
    ) -> Caption:
        """Caption a file; `stage` is told what is being done. A message to the user names no folder of this machine."""
        if not 1 <= beam <= WIDEST:
            raise UserError(f"beam={beam}: choose 1 to {WIDEST}")
        try:
            return self._caption(video, model, beam, stage, pictures)
        except UserError as error:
            raise UserError(str(error).replace(str(video), video.name).replace(str(video.parent), "…")) from None

    def explain(self, video: Path, model: str, beam: int, stage: Stage = lambda stage: None) -> Explanation:
        """Caption a file and say why."""
        captioner = self.model(model)[0]
        caption = self.caption(video, model, beam, stage, pictures=captioner.pictures)
        stage("report")
        return collect(video, [(model, captioner, caption)])

    def _caption(self, video: Path, model: str, beam: int, stage: Stage, pictures: int) -> Caption:
        stage("decoding")
        captioner, extractor = self.model(model)
        begun = time.perf_counter()
        decoded, shown = extractor.decode(video, pictures=pictures, decoders=self.decoders)
        seen = time.perf_counter() - begun

        def describe() -> Caption:
            stage("features")
            begun = time.perf_counter()
            extracted = replace(extractor.features([decoded])[0], preview=shown)
            if not extracted.features:
                raise UserError(f"{video.name}: nothing to caption ({'; '.join(extracted.absent.values())})")
            made = time.perf_counter()
            stage("words")
            caption = captioner.describe(extracted, replace(captioner.search, beam=beam))
            return replace(caption, seconds={"decoding": seen, "features": made - begun, **caption.seconds})

        return self._alone(describe)

    def _alone(self, work: Callable[[], T]) -> T:
        """Run this in the thread of torch, after what others have asked for."""
        return self._thread.submit(copy_context().run, work).result()
