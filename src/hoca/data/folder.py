"""The folder dataset: `captions.jsonl` (or .csv) and `features/`, joined and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hoca.data.bank import FeatureBank
from hoca.data.corpus import Corpus, Video, captions_file, read_corpus
from hoca.data.problems import OnProblem, Problems, Report
from hoca.errors import BadDataset, UnknownName, UserError, nearest
from hoca.features.store import FeatureStore, Header, ordered
from hoca.garbage import no_garbage_collection


class FolderDataset:
    """Captions and features of the same videos; every check that needs no feature value is made here, once.

    modalities: the ones to use, in this order; None takes all that the store has.
    features: the store, when it is not `folder/features`.
    on_problem: "stop" at the first problem, or "skip" what has one and `report` the counts.
    """

    @no_garbage_collection()
    def __init__(
        self,
        folder: Path | str,
        *,
        modalities: Sequence[str] | None = None,
        features: Path | str | None = None,
        on_problem: OnProblem = "stop",
        report: Report | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.problems = Problems(on_problem, report)
        self.store = FeatureStore(features or self.folder / "features")
        self.captions_file = captions_file(self.folder)
        corpus = read_corpus(self.captions_file, name=self.folder.name, problems=self.problems)
        headers = self._headers(corpus)
        self.widths = _choose(_usual_widths(headers.values()), modalities, self.store.folder)
        self._lengths = {id: found for id, header in headers.items() if (found := self._checked(id, header))}
        self.specification = self._specification(headers)
        self.problems.close(str(self.folder))
        self.corpus = self._kept(corpus)
        self._bank: FeatureBank | None = None

    @property
    def name(self) -> str:
        return self.corpus.name

    @property
    def modalities(self) -> list[str]:
        return list(self.widths)

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of the categories, in the order of their numbers."""
        return self.corpus.categories

    def number_categories(self, names: Sequence[str]) -> None:
        """Let batches number the categories as a model does that was trained on other videos; others are unknown."""
        self.corpus = self.corpus.numbered(names)

    @property
    def steps(self) -> dict[str, int]:
        """The longest length of each modality."""
        return {name: max(lengths.get(name, 0) for lengths in self._lengths.values()) for name in self.widths}

    def videos(self, split: str) -> list[Video]:
        return self.corpus.split(split)

    def lengths(self, id: str) -> dict[str, int]:
        """The length of each modality that the video has."""
        return self._lengths[id]

    def features(self, id: str) -> dict[str, np.ndarray]:
        """Features [T, width], float32, of the chosen modalities that the video has."""
        if self._bank is not None:
            return {name: self._bank[id, name].float().cpu().numpy() for name in self._lengths[id]}
        stored = self.store[id]
        return {name: _finite(stored[name], name, self.store.path(id)) for name in self._lengths[id]}

    def preload(self, dtype: torch.dtype = torch.float16, device: torch.device | str = "cpu") -> FolderDataset:
        """Read all features into memory, where batches are made without touching a file; returns the dataset.

        float16 is what the store holds, so it loses nothing. On a GPU with room for them (`device="cuda"`) batches
        are made there, and no feature is copied during training.
        """
        self._bank = None
        if self.problems.on_problem == "skip":
            self._drop_unreadable()
        self._bank = FeatureBank(self._lengths, self.widths, self.features, dtype=dtype, device=device)
        return self

    @property
    def device(self) -> torch.device:
        """Where batches are made: that of `preload`."""
        return torch.device("cpu") if self._bank is None else next(iter(self._bank.values.values())).device

    def padded(self, ids: Sequence[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Features [B, T_m, D_m] float32, zero padded, and lengths [B], 0 = missing, of each modality."""
        bank = self._bank
        if bank is None:
            bank = FeatureBank({id: self._lengths[id] for id in ids}, self.widths, self.features)
        return bank.padded(ids)

    def _headers(self, corpus: Corpus) -> dict[str, Header]:
        """The headers of the videos that have both captions and features."""
        found = self.store.survey()
        if not found:
            raise BadDataset(f"no features in {self.store.folder}: extract them, or say where the store is")
        headers = {}
        for video in corpus.videos:
            if video.id not in found:
                self.problems.add(
                    "captions without features",
                    f"video {video.id} of {self.captions_file} has no features in {self.store.folder}: "
                    "extract them or delete its line",
                )
                continue
            header = found[video.id]
            if isinstance(header, UserError):
                self.problems.add("unreadable feature file", str(header))
            else:
                headers[video.id] = header
        for id in sorted(found.keys() - {video.id for video in corpus.videos}):
            self.problems.add(
                "features without captions",
                f"{self.store.path(id)} has no captions in {self.captions_file}: add a line or delete it",
            )
        return headers

    def _drop_unreadable(self) -> None:
        """Leave out the videos whose values, not only headers, are damaged."""
        for id in list(self._lengths):
            try:
                self.features(id)
            except UserError as error:
                self.problems.add("unreadable feature file", str(error))
                del self._lengths[id]
        self.problems.close(str(self.store.folder))
        self.corpus = self._kept(self.corpus)

    def _kept(self, corpus: Corpus) -> Corpus:
        """The videos that passed all checks."""
        kept = tuple(video for video in corpus.videos if video.id in self._lengths)
        if not kept:
            raise BadDataset(f"{self.folder}: no video has both captions and features: extract features first")
        return Corpus(corpus.name, kept, corpus.categories)

    def _checked(self, id: str, header: Header) -> dict[str, int]:
        """Lengths of the chosen modalities; empty when the video cannot be used."""
        lengths = {}
        for name, expected in self.widths.items():
            steps, width = header.shapes.get(name, (0, expected))
            if width != expected:
                self.problems.add(
                    "feature file of the wrong width",
                    f"{self.store.path(id)}: {name} features are {width} wide, expected {expected} as in the other "
                    "files: extract it again with the same backbone",
                )
                return {}
            if steps:
                lengths[name] = steps
        if not lengths:
            self.problems.add(
                "video without any modality",
                f"{self.store.path(id)} has none of {', '.join(self.widths)}: extract it again or delete it",
            )
        return lengths

    def _specification(self, headers: dict[str, Header]) -> dict[str, Any]:
        """How the chosen modalities were made, as their files say; files that differ are a problem each."""
        made = {id: {name: headers[id].specification.get(name) for name in self.widths} for id in self._lengths}
        if not made:
            return {}
        usual = _most_common(list(made.values()))
        for id, specification in made.items():
            if specification != usual:
                self.problems.add(
                    "features made differently",
                    f"{self.store.path(id)} was made with {specification}, the other files with {usual}: "
                    "extract it again",
                )
                del self._lengths[id]
        return {name: value for name, value in usual.items() if value is not None}


def _usual_widths(headers: Any) -> dict[str, int]:
    """The width that most files have, per modality; image, motion, audio first, then as stored."""
    widths: dict[str, Counter[int]] = {}
    for header in headers:
        for name, (_, width) in header.shapes.items():
            widths.setdefault(name, Counter())[width] += 1
    return {name: widths[name].most_common(1)[0][0] for name in ordered(widths)}


def _choose(widths: dict[str, int], modalities: Sequence[str] | None, where: Path) -> dict[str, int]:
    if modalities is None:
        return widths
    if not modalities or len(set(modalities)) != len(modalities):
        raise UserError(f"modalities {list(modalities)}: name each one once, out of {', '.join(widths)}")
    for name in modalities:
        if name not in widths:
            raise UnknownName(f"no modality {name!r} in {where} (it has {', '.join(widths)}): {nearest(name, widths)}")
    return {name: widths[name] for name in modalities}


def _most_common(values: list[Any]) -> Any:
    usual = Counter(map(repr, values)).most_common(1)[0][0]
    return next(value for value in values if repr(value) == usual)


def _finite(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    if not np.isfinite(values).all():
        raise BadDataset(f"{path}: {name} features hold NaN or infinite values: extract it again")
    return values
