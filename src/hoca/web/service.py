"""What the page and its API do with an upload: decode it within limits, caption it, explain the caption."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hoca import media
from hoca.captioning import Caption, VideoCaptioner, load
from hoca.captioning.segments import Film, captioned
from hoca.errors import UserError, nearest
from hoca.explain import ExplainedVideo, FilmSegment, collect, film_segments, model_name, segment_content
from hoca.media.subtitles import clock_time

OnStage = Callable[[str], None]
T = TypeVar("T")
WIDEST = 10  # beam


class Service:
    """Captions files with one of several models. Files are decoded side by side, captioned one at a time.

    All that torch does happens in one thread: each thread that it works in keeps memory of its own, and a server has
    many.
    """

    def __init__(
        self, models: Sequence[Path | str], limits: media.DecodeLimits, workers: int = 2, device: str = "auto"
    ) -> None:
        self.paths = {model_name(model): model for model in models}
        if len(self.paths) < len(models):
            raise UserError(f"two of the models are called alike ({', '.join(self.paths)}): rename one of the folders")
        self.decoders = media.Decoders(workers, limits)
        self._device = device
        self._loaded: dict[str, VideoCaptioner] = {}
        self._thread = ThreadPoolExecutor(1, "caption")
        self.model(next(iter(self.paths)))

    def __enter__(self) -> Service:
        self.decoders.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.decoders.__exit__(*error)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def model(self, name: str) -> VideoCaptioner:
        """A model with what makes its features, loaded when first asked for; models alike in features share those."""
        if name not in self.paths:
            raise UserError(f"there is no model {name!r} here: {nearest(name, self.paths)}")
        if name not in self._loaded:
            self._alone(lambda: self._load(name))
        return self._loaded[name]

    def _load(self, name: str) -> None:
        captioner = load(self.paths[name], self._device)
        kind = json.dumps(captioner.specification, sort_keys=True)
        for other in self._loaded.values():
            if json.dumps(other.specification, sort_keys=True) == kind:
                captioner.extractor = other.extractor
        captioner.extractor  # noqa: B018  loads the networks
        self._loaded[name] = captioner

    def caption(
        self, video: Path, model: str, beam: int, stage: OnStage = lambda stage: None, *, pictures: int = 0
    ) -> Caption:
        """Caption a file; `stage` is told what is being done. A message to the user names no folder of this machine."""
        captioner = self._chosen(model, beam)
        try:
            return captioner.caption(
                video,
                replace(captioner.search, beam=beam),
                pictures=pictures,
                decoders=self.decoders,
                on_stage=stage,
                computing=self._alone,
            )
        except UserError as error:
            raise _without_folder(error, video) from None

    def explain(self, video: Path, model: str, beam: int, stage: OnStage = lambda stage: None) -> ExplainedVideo:
        """Caption a file and say why."""
        captioner = self.model(model)
        caption = self.caption(video, model, beam, stage, pictures=captioner.pictures)
        stage("report")
        return collect(video, [(model, captioner, caption)])

    def film(
        self,
        video: Path,
        model: str,
        beam: int,
        *,
        every: float | None = None,
        scenes: bool = False,
        done: Callable[[float, float], None] = lambda seconds, total: None,
    ) -> list[FilmSegment]:
        """A sentence for each segment of a file, and why; `done` is told up to which second, of how many."""
        captioner = self._chosen(model, beam)
        try:
            film = Film.measure(captioner, video, 0.0, None, self.decoders)
            if film.length > self.decoders.limits.seconds:
                limit = clock_time(self.decoders.limits.seconds)
                raise UserError(f"{video.name} plays for {clock_time(film.length)}, longer than the limit of {limit}")
            spans = film.spans(captioner, every, scenes, self.decoders)
            options: dict[str, Any] = {
                "pictures": captioner.pictures,
                "decoders": self.decoders,
                "computing": self._alone,
            }
            search = replace(captioner.search, beam=beam)
            parts = []
            for segment in captioned(captioner, film, spans, search=search, **options):
                done(segment.end, film.end)
                shown = collect(video, [(model, captioner, segment.caption)])
                told = replace(
                    segment, caption=replace(segment.caption, preview=None)
                )  # its pictures are in the content
                parts.append((told, segment_content(shown)))
            return film_segments(parts)
        except UserError as error:
            raise _without_folder(error, video) from None

    def _chosen(self, model: str, beam: int) -> VideoCaptioner:
        if not 1 <= beam <= WIDEST:
            raise UserError(f"beam={beam}: choose 1 to {WIDEST}")
        return self.model(model)

    def _alone(self, work: Callable[[], T]) -> T:
        """Run this in the thread of torch, after what others have asked for."""
        return self._thread.submit(copy_context().run, work).result()


def _without_folder(error: UserError, video: Path) -> UserError:
    return UserError(str(error).replace(str(video), video.name).replace(str(video.parent), "…"))
