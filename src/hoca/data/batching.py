"""Batches of B videos × R captions, in an order that a seed, an epoch and nothing else decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from hoca.data.corpus import Video
from hoca.data.folder import FolderDataset
from hoca.data.plan import Plan
from hoca.errors import UserError
from hoca.text import Vocabulary


@dataclass
class Batch:
    """Videos with some of their captions; `words` has no captions (R = 0) where only features are needed."""

    ids: list[str]
    features: dict[str, Tensor]  # modality -> [B, T_m, D_m] float32, zero padded
    lengths: dict[str, Tensor]  # modality -> [B], 0 = missing; on the CPU, where packing needs them
    words: Tensor  # [B, R, L + 1]: bos, w1, …, wn, eos, then pad; a caption that a video lacks is all pad
    caption_count: int  # real captions in this batch
    global_caption_count: int  # real captions in this batch of all ranks together
    category: Tensor | None = None  # [B], -1 = unknown; None where the dataset has no categories
    weights: Tensor | None = None  # [B, R], what each caption counts; None: all the same
    targets: dict[str, Tensor] = field(default_factory=dict)  # what a model's own losses need, [B, ...] each

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """All tensors on `device` but the lengths, which stay where they are."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        return self._map(moved)

    def pin_memory(self) -> Batch:
        return self._map(lambda tensor: tensor if tensor.is_cuda else tensor.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        return replace(
            self,
            features={name: function(values) for name, values in self.features.items()},
            words=function(self.words),
            category=None if self.category is None else function(self.category),
            weights=None if self.weights is None else function(self.weights),
            targets={name: function(values) for name, values in self.targets.items()},
        )

    def __len__(self) -> int:
        return len(self.ids)


class Batches(Dataset[Batch]):
    """The training batches of one epoch.

    An item is a video with up to `captions_per_video` of its captions (None or 0: all of them). In each epoch the
    captions of each video are shuffled and cut into such chunks, so every caption is seen exactly once. `batch_size`
    counts the items of a global batch; of these, rank r takes r, r + world, r + 2·world, …, so global batches are the
    same whatever `world` is. A rank for which nothing is left gets the first item with all its words `<pad>`.

    batch_size: items in a global batch.
    max_words: words kept of a caption; `cut` counts the captions that lost some.
    bucket: put captions of similar length into the same item and items of similar length into the same batch.
    workers: processes that prepare batches ahead; order and content do not depend on them.
    weights: video id → what each of its captions counts; None: all the same.
    targets: all captions of a video → tensors that go with it in a batch, of the same shape for every video.
    """

    def __init__(
        self,
        dataset: FolderDataset,
        split: str,
        vocabulary: Vocabulary,
        *,
        batch_size: int = 25,
        captions_per_video: int | None = None,
        max_words: int | None = 30,
        seed: int = 0,
        epoch: int = 0,
        bucket: bool = True,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
        weights: Mapping[str, Sequence[float]] | None = None,
        targets: Callable[[Sequence[str]], Mapping[str, Tensor]] | None = None,
    ) -> None:
        counts = ("batch_size", batch_size, 1), ("captions_per_video", captions_per_video or 0, 0)
        for name, value, least in (*counts, ("max_words", max_words, 1)):
            if value is not None and value < least:
                raise UserError(f"{name} is {value}: choose at least {least}")
        if not 0 <= rank < world:
            raise UserError(f"rank {rank} of {world} processes: choose 0 … {world - 1}")
        if workers and dataset.device.type != "cpu":
            raise UserError(f"workers is {workers}, but the features are on {dataset.device}: choose 0 workers")
        self.dataset, self.vocabulary = dataset, vocabulary
        self.batch_size, self.captions_per_video = batch_size, captions_per_video or None
        self.bucket, self.seed = bucket, seed
        self.rank, self.world, self.workers = rank, world, workers
        self.videos = dataset.videos(split)
        self._targets = [targets(video.captions) for video in self.videos] if targets else []
        self._encode(max_words, weights)
        if not len(self._owner):
            raise UserError(f"no captioned videos in split {split} of {dataset.folder}: choose another split")
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Lay out the batches of an epoch; the next iteration yields them."""
        self.epoch = epoch
        self._plan = Plan.make(
            self._owner,
            self._counts,
            self._steps,
            chunk=self.captions_per_video,
            batch=self.batch_size,
            seed=(self.seed, epoch),
            bucket=self.bucket,
        )

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Batch]:
        return self.iterate()

    def iterate(self, start: int = 0) -> Iterator[Batch]:
        """The batches of the epoch from number `start` on; those before it cost nothing."""
        if not self.workers:
            return (self[number] for number in range(start, len(self)))
        loader = DataLoader(
            self,
            batch_size=None,  # an index is a whole batch here
            sampler=range(start, len(self)),
            num_workers=self.workers,
            generator=torch.Generator(),  # the loader draws a seed: not from the generator that training uses
        )
        return iter(loader)

    def __getitem__(self, number: int) -> Batch:
        """This rank's part of batch `number` of the epoch."""
        whole = self._plan.items(number)
        mine = whole[self.rank :: self.world]
        chosen = [self._plan.captions(item) for item in mine]
        global_count = sum(len(self._plan.captions(item)) for item in whole)
        if not len(mine):
            mine, chosen = whole[:1], [np.empty(0, dtype=np.int64)]
        numbers = [self._plan.video(item) for item in mine]
        words = self._words(chosen)
        batch = _collate(
            self.dataset, [self.videos[number] for number in numbers], words, sum(map(len, chosen)), global_count
        )
        if self._weights is not None:
            batch.weights = torch.zeros(words.shape[:2])
            for row, each in zip(batch.weights, chosen, strict=True):
                row[: len(each)] = torch.from_numpy(self._weights[each])
        if self._targets:
            found = [self._targets[number] for number in numbers]
            batch.targets = {name: torch.stack([each[name] for each in found]) for name in found[0]}
        return batch

    def padding(self) -> float:
        """The share of word places of the epoch, over all batches, that hold no word."""
        real = places = 0
        for number in range(len(self)):
            chosen = [self._plan.captions(item) for item in self._plan.items(number)]
            lengths = self._counts[np.concatenate(chosen)]
            real += int(lengths.sum())
            places += len(chosen) * max(map(len, chosen)) * int(lengths.max())
        return 1 - real / places

    def _encode(self, max_words: int | None, weights: Mapping[str, Sequence[float]] | None) -> None:
        """All captions as one array of ids; of each the owner, the first place, the number of ids and the weight."""
        self.cut = self.wordless = 0
        owner, counts, ids, weighted = [], [], [], []
        for number, video in enumerate(self.videos):
            for place, caption in enumerate(video.captions):
                words = self.vocabulary.encode(caption)
                if len(words) == 2:
                    self.wordless += 1
                    continue
                if max_words is not None and len(words) - 2 > max_words:
                    self.cut += 1
                    words = [*words[: max_words + 1], self.vocabulary.eos]
                owner.append(number)
                counts.append(len(words))
                ids.extend(words)
                weighted.append(1.0 if weights is None else weights[video.id][place])
        self._owner = np.array(owner, dtype=np.int64)  # [captions]
        self._counts = np.array(counts, dtype=np.int64)  # [captions]
        self._first = np.cumsum(self._counts) - self._counts
        self._ids = np.array(ids, dtype=np.int32)
        self._weights = None if weights is None else np.array(weighted, dtype=np.float32)
        self._steps = np.array([sum(self.dataset.lengths(video.id).values()) for video in self.videos], dtype=np.int64)

    def _words(self, chosen: list[np.ndarray]) -> Tensor:
        """The words [B, R, L + 1] of some captions of each item."""
        captions = np.concatenate(chosen)
        item = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
        place = np.concatenate([np.arange(len(each)) for each in chosen])
        counts = self._counts[captions]
        shape = (len(chosen), max(1, max(map(len, chosen))), counts.max(initial=2))
        words = np.full(shape, self.vocabulary.pad, dtype=np.int64)
        column = np.arange(shape[2])
        real = column < counts[:, None]  # [captions of the batch, L + 1]
        rows = np.full(real.shape, self.vocabulary.pad, dtype=np.int64)
        rows[real] = self._ids[(self._first[captions][:, None] + column)[real]]
        words[item, place] = rows
        return torch.from_numpy(words)


def evaluation_batches(
    dataset: FolderDataset, split: str, batch_size: int = 50, *, rank: int = 0, world: int = 1
) -> Iterator[Batch]:
    """Each video of a split once, in order, features and lengths only; rank r takes batches r, r + world, …"""
    videos = dataset.videos(split)
    if not videos:
        raise UserError(f"no videos in split {split} of {dataset.folder}: choose another split")
    groups = (videos[first : first + batch_size] for first in range(0, len(videos), batch_size))
    for group in islice(groups, rank, None, world):
        yield _collate(dataset, group, torch.empty(len(group), 0, 0, dtype=torch.long), 0, 0)


def _collate(dataset: FolderDataset, videos: list[Video], words: Tensor, count: int, global_count: int) -> Batch:
    ids = [video.id for video in videos]
    features, lengths = dataset.padded(ids)
    category = None
    if dataset.categories:
        category = torch.tensor([dataset.corpus.category_number(video) for video in videos])
    return Batch(ids, features, lengths, words, count, global_count, category)
