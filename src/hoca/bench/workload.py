"""Models, batches and videos of a given size, made of random numbers on the device that is measured."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hoca.data import Batch, FolderDataset, msrvtt
from hoca.data.bank import FeatureBank
from hoca.data.corpus import Corpus, Video
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.generation import Search
from hoca.models import CaptionModel, create, entry
from hoca.options import option
from hoca.text import Vocabulary
from hoca.training.objectives import CrossEntropy, Objective
from hoca.training.optimizer import build_optimizer
from hoca.training.recipe import ModelSection, Recipe, TrainSection
from hoca.training.state import State

WIDTHS = {"image": 1536, "motion": 1024, "audio": 128}
UNARY = "hoca-u"


@dataclass(frozen=True)
class Sizes:
    """Those of the paper: 25 pairs of a video and a caption of 30 words, three modalities of 80 steps."""

    videos: int = option(25, "in a batch", least=1)
    captions: int = option(1, "of each video", least=1)
    words: int = option(30, "of each caption", least=2)
    steps: int = option(80, "of each modality", least=1)
    hidden: int = option(512, "size of the LSTMs", least=1)
    attention: int = option(512, "size of the attention's common space", least=1)
    vocabulary: int = option(10547, "words that the model knows", least=10)

    def words_known(self) -> Vocabulary:
        special = len(Vocabulary([]))
        return Vocabulary([f"w{number}" for number in range(self.vocabulary - special)])

    def model(self, name: str, device: torch.device, *, dropout: float = 0.5) -> CaptionModel:
        """The same weights for the same name and sizes, and what it takes from captions taken from random ones."""
        torch.manual_seed(0)
        wanted = {"hidden": self.hidden, "attention": self.attention, "max_steps": self.steps, "dropout": dropout}
        known = entry(name).model.Config.options()
        with torch.device(device):
            model = create(name, WIDTHS, self.words_known(), **{k: v for k, v in wanted.items() if k in known})
        model.prepare([captions for seed in range(2) for captions in self.texts(self.random_words(seed))])
        return model

    def recipe(self, precision: str, captions: int | None = None) -> Recipe:
        train: Any = {
            "batch_size": self.videos,
            "captions_per_video": captions or self.captions,
            "precision": precision,
        }
        return Recipe(model=ModelSection(), train=TrainSection(**train))

    def state(self, name: str, recipe: Recipe, dist: Distributed, *, dropout: float = 0.5) -> State:
        model = self.model(name, dist.device, dropout=dropout).train()
        return State(model, build_optimizer(recipe.train, model), None, dist)

    def objective(self, recipe: Recipe) -> Objective:
        return CrossEntropy(recipe.train, Search(), self.words_known(), {})

    def features(self, device: torch.device, videos: int | None = None) -> dict[str, Tensor]:
        return {m: torch.randn(videos or self.videos, self.steps, width, device=device) for m, width in WIDTHS.items()}

    def batches(self, name: str, device: torch.device, count: int) -> list[Batch]:
        """With what this model's own losses need."""
        model = self.model(name, torch.device("cpu"))
        made = []
        for seed in range(count):
            batch = self.batch(device, seed)
            each = [model.targets(captions) for captions in self.texts(batch.words)]
            made.append(replace(batch, targets={key: torch.stack([of[key] for of in each]) for key in each[0]}))
        return made

    def random_words(self, seed: int) -> Tensor:
        """[videos, captions, words + 1]"""
        torch.manual_seed(seed)
        vocabulary = self.words_known()
        first = vocabulary.unk + 1
        words = torch.randint(first, len(vocabulary), (self.videos, self.captions, self.words + 1))
        words[:, :, 0], words[:, :, -1] = vocabulary.bos, vocabulary.eos
        return words

    def texts(self, words: Tensor) -> list[list[str]]:
        vocabulary = self.words_known()
        return [[vocabulary.decode(caption) for caption in captions] for captions in words.tolist()]

    def batch(self, device: torch.device, seed: int = 0) -> Batch:
        """Captions of the full length, videos of the full number of steps."""
        words = self.random_words(seed)
        lengths = {m: torch.full((self.videos,), self.steps) for m in WIDTHS}
        count = self.videos * self.captions
        ids = [str(number) for number in range(self.videos)]
        return Batch(ids, self.features(device), lengths, words, count, count)


class RandomVideos(FolderDataset):
    """A dataset whose captions have given lengths and whose features are noise on the device; it has no folder."""

    def __init__(self, sizes: Sizes, lengths: np.ndarray, device: torch.device) -> None:
        """lengths: [videos, captions], in words."""
        self.folder = Path()
        self.widths = dict(WIDTHS)
        random = np.random.default_rng(0)
        words = np.array(sizes.words_known().words)
        videos = []
        for number, row in enumerate(lengths.tolist()):
            captions = tuple(" ".join(words[random.integers(len(words), size=count)]) for count in row)
            videos.append(Video(str(number), "train", captions))
        self.corpus = Corpus("random", tuple(videos))
        self._lengths = {video.id: dict.fromkeys(WIDTHS, sizes.steps) for video in videos}
        self._bank = RandomBank(self._lengths, sizes, device)


class RandomBank(FeatureBank):
    def __init__(self, lengths: dict[str, dict[str, int]], sizes: Sizes, device: torch.device) -> None:
        self.lengths = lengths
        self._first = {m: {id: 1 + sizes.steps * place for place, id in enumerate(lengths)} for m in WIDTHS}
        rows = 1 + sizes.steps * len(lengths)
        self.values = {m: torch.randn(rows, width, device=device, dtype=torch.float16) for m, width in WIDTHS.items()}


def caption_lengths(source: str | None) -> np.ndarray | None:
    """Words of each caption of each training video of MSR-VTT, [6513, 20].

    `source` is the folder of the official files, or an .npz with the array `lengths`; None looks for the folder in
    that of the research data and gives None where there is none.
    """
    if source is not None and source.endswith(".npz"):
        try:
            return np.load(source, allow_pickle=False)["lengths"]
        except (OSError, KeyError, ValueError) as error:
            raise UserError(f"lengths={source} is no .npz with an array `lengths` ({error})") from None
    folder = Path(source or Path(os.environ.get("HOCA_DATA", "../shared/data")) / "msrvtt")
    if source is None and not folder.is_dir():
        return None
    videos = msrvtt.read(folder).split("train")
    return np.array([[len(caption.split()) for caption in video.captions] for video in videos])


def all_alone(device: torch.device) -> Distributed:
    return Distributed(0, 1, device)


def set_backend(model: CaptionModel, backend: str) -> None:
    """Let every part of the model that computes through `hoca.ops` use this backend."""
    for module in model.modules():
        if hasattr(module, "backend"):
            module.backend = backend  # type: ignore[assignment]


def fresh(device: torch.device) -> None:
    """Give back all memory of what was measured before."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def in_turn(batches: list[Batch]) -> Iterator[Batch]:
    while True:
        yield from batches
