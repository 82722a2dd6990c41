"""Every caption once, in an order that a seed and an epoch decide, whatever the number of processes."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hoca.data import Batch, Batches, FolderDataset, Vocabulary, evaluation_batches
from hoca.errors import UserError

sizes = st.integers(1, 9)
seeds = st.integers(0, 2**40)
chunks = st.none() | st.integers(0, 8)


@pytest.fixture(scope="module")
def dataset(folder: Path) -> FolderDataset:
    return FolderDataset(folder).preload()


@pytest.fixture(scope="module")
def vocabulary(dataset: FolderDataset) -> Vocabulary:
    return Vocabulary.build(dataset.corpus.captions("train"))


def captions_in(batch: Batch, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """(video id, caption) of every real caption of a batch."""
    return [
        (id, vocabulary.decode(row))
        for id, rows in zip(batch.ids, batch.words.tolist(), strict=True)
        for row in rows
        if any(row)
    ]


def same(first: Batch, second: Batch) -> bool:
    def equal(one: Tensor | None, other: Tensor | None) -> bool:
        return one is other is None or (one is not None and other is not None and torch.equal(one, other))

    return (
        first.ids == second.ids
        and first.caption_count == second.caption_count
        and first.global_caption_count == second.global_caption_count
        and equal(first.words, second.words)
        and equal(first.category, second.category)
        and equal(first.weights, second.weights)
        and first.targets.keys() == second.targets.keys()
        and all(equal(first.targets[name], second.targets[name]) for name in first.targets)
        and all(equal(first.features[name], second.features[name]) for name in first.features)
        and all(equal(first.lengths[name], second.lengths[name]) for name in first.lengths)
    )


@settings(max_examples=60, deadline=None)
@given(size=sizes, captions=chunks, seed=seeds, epoch=st.integers(0, 100), bucket=st.booleans())
def test_every_caption_exactly_once_an_epoch(
    dataset: FolderDataset,
    vocabulary: Vocabulary,
    size: int,
    captions: int | None,
    seed: int,
    epoch: int,
    bucket: bool,
) -> None:
    batches = Batches(
        dataset,
        "train",
        vocabulary,
        batch_size=size,
        captions_per_video=captions,
        seed=seed,
        epoch=epoch,
        bucket=bucket,
    )
    yielded = list(batches)
    assert len(yielded) == len(batches)
    seen = Counter(pair for each in yielded for pair in captions_in(each, vocabulary))
    assert seen == Counter((video.id, text) for video in dataset.videos("train") for text in video.captions)
    for each in yielded:
        assert len(each) <= size
        assert each.words.shape[1] <= (captions or 7)
        assert each.caption_count == each.global_caption_count == len(captions_in(each, vocabulary))
    assert sum(len(each) < size for each in yielded) <= 1


@settings(max_examples=40, deadline=None)
@given(size=sizes, captions=chunks, seed=seeds, epoch=st.integers(0, 9), world=st.integers(2, 5))
def test_global_batches_do_not_depend_on_the_number_of_processes(
    dataset: FolderDataset, vocabulary: Vocabulary, size: int, captions: int | None, seed: int, epoch: int, world: int
) -> None:
    def batches(rank: int, world: int) -> list[Batch]:
        options = {"batch_size": size, "captions_per_video": captions, "seed": seed, "epoch": epoch}
        return list(Batches(dataset, "train", vocabulary, **options, rank=rank, world=world))  # type: ignore[arg-type]

    parts = zip(*(batches(rank, world) for rank in range(world)), strict=True)
    for whole, ranks in zip(batches(0, 1), parts, strict=True):
        assert [each.global_caption_count for each in ranks] == [whole.caption_count] * world
        assert sum(each.caption_count for each in ranks) == whole.caption_count
        together = Counter(pair for each in ranks for pair in captions_in(each, vocabulary))
        assert together == Counter(captions_in(whole, vocabulary))
        for rank, each in enumerate(ranks):
            mine = whole.ids[rank::world]
            assert each.ids == (mine or whole.ids[:1])
            assert len(each.words) == len(each) > 0
            if not mine:
                assert each.caption_count == 0
                assert not each.words.any()
                assert each.words.shape[1:].numel() >= 2


@settings(max_examples=25, deadline=None)
@given(captions=chunks, seed=seeds, epoch=st.integers(0, 9), start=st.integers(0, 30), bucket=st.booleans())
def test_order_is_reproducible_and_may_be_entered_anywhere(
    dataset: FolderDataset,
    vocabulary: Vocabulary,
    captions: int | None,
    seed: int,
    epoch: int,
    start: int,
    bucket: bool,
) -> None:
    first = Batches(
        dataset, "train", vocabulary, batch_size=3, captions_per_video=captions, seed=seed, epoch=epoch, bucket=bucket
    )
    other = Batches(dataset, "train", vocabulary, batch_size=3, captions_per_video=captions, seed=seed, bucket=bucket)
    other.set_epoch(epoch + 1)
    other.set_epoch(epoch)
    resumed = list(other.iterate(start))
    rest = list(first)[start:]
    assert len(rest) == len(resumed)
    assert all(same(*pair) for pair in zip(rest, resumed, strict=True))


def test_epochs_and_seeds_differ(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    def order(seed: int, epoch: int) -> list[tuple[str, str]]:
        batches = Batches(dataset, "train", vocabulary, batch_size=4, captions_per_video=2, seed=seed, epoch=epoch)
        return [pair for batch in batches for pair in captions_in(batch, vocabulary)]

    orders = [order(0, 0), order(0, 1), order(1, 0), order(2**32, 0)]
    assert all(orders[i] != orders[j] for i in range(4) for j in range(i))


def test_workers_change_neither_order_nor_content_nor_the_generator(
    dataset: FolderDataset, vocabulary: Vocabulary
) -> None:
    alone = Batches(dataset, "train", vocabulary, batch_size=4, captions_per_video=2, seed=5)
    helped = Batches(dataset, "train", vocabulary, batch_size=4, captions_per_video=2, seed=5, workers=2)
    state = torch.get_rng_state()
    both = list(zip(alone.iterate(3), helped.iterate(3), strict=True))
    assert len(both) == len(alone) - 3 > 0
    assert all(same(*pair) for pair in both)
    assert torch.equal(state, torch.get_rng_state())


def test_batches_can_be_sent_to_another_process(folder: Path, vocabulary: Vocabulary) -> None:
    dataset = FolderDataset(folder, on_problem="skip", report=lambda line: None)
    batches = Batches(dataset, "train", vocabulary, batch_size=4)
    sent = pickle.loads(pickle.dumps(batches))
    assert all(same(*pair) for pair in zip(batches, sent, strict=True))


def test_words_are_bos_words_eos_pad(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    for batch in Batches(dataset, "train", vocabulary, batch_size=5, captions_per_video=3):
        rows = batch.words.flatten(0, 1)  # [B·R, L + 1]
        real = rows[rows.any(dim=1)]
        lengths = (real != vocabulary.pad).sum(dim=1)
        assert (real[:, 0] == vocabulary.bos).all()
        assert (real[torch.arange(len(real)), lengths - 1] == vocabulary.eos).all()
        assert int(lengths.max()) == rows.shape[1]
        assert all(not row[length:].any() for row, length in zip(real, lengths, strict=True))
        for id, category in zip(batch.ids, batch.category.tolist(), strict=True):  # type: ignore[union-attr]
            assert category == int(id[1:]) % 3 - 1


def test_long_captions_are_cut_and_counted(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    batches = Batches(dataset, "train", vocabulary, max_words=5)
    texts = list(dataset.corpus.captions("train"))
    assert batches.cut == sum(len(text.split()) > 5 for text in texts) > 0
    seen = Counter(text for batch in batches for _, text in captions_in(batch, vocabulary))
    assert seen == Counter(" ".join(text.split()[:5]) for text in texts)


def test_buckets_save_padding(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    for captions, share in ((1, 0.5), (2, 0.9), (3, 0.9)):
        shuffled, bucketed = (
            Batches(dataset, "train", vocabulary, batch_size=4, captions_per_video=captions, bucket=bucket).padding()
            for bucket in (False, True)
        )
        assert bucketed < share * shuffled


def test_a_batch_moves_but_its_lengths_stay(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    weights = {video.id: [1.0] * len(video.captions) for video in dataset.videos("train")}
    batches = Batches(dataset, "train", vocabulary, batch_size=4, weights=weights, targets=count_captions)
    batch = next(iter(batches)).to("meta")
    moved = [*batch.features.values(), batch.words, batch.category, batch.weights, *batch.targets.values()]
    assert {values.device.type for values in moved} == {"meta"}
    assert {values.device.type for values in batch.lengths.values()} == {"cpu"}


def count_captions(captions: Sequence[str]) -> dict[str, Tensor]:
    return {"count": torch.tensor(len(captions)), "first": torch.tensor([len(captions[0]), 1])}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_caption_brings_its_weight_and_a_video_its_targets(
    dataset: FolderDataset, vocabulary: Vocabulary, workers: int
) -> None:
    videos = {video.id: video for video in dataset.videos("train")}
    weights = {id: [hash_of(text) for text in video.captions] for id, video in videos.items()}
    batches = Batches(
        dataset, "train", vocabulary, batch_size=4, captions_per_video=2, weights=weights, targets=count_captions,
        workers=workers,
    )  # fmt: skip
    for batch in batches:
        assert batch.weights is not None
        assert batch.weights.shape == batch.words.shape[:2]
        for id, rows, counted in zip(batch.ids, batch.words.tolist(), batch.weights.tolist(), strict=True):
            texts = [vocabulary.decode(row) for row in rows]
            expected = [weights[id][videos[id].captions.index(text)] if text else 0.0 for text in texts]
            assert counted == pytest.approx(expected)
        assert batch.targets["count"].tolist() == [len(videos[id].captions) for id in batch.ids]
        assert batch.targets["first"].tolist() == [[len(videos[id].captions[0]), 1] for id in batch.ids]


def hash_of(text: str) -> float:
    """Another weight for each caption."""
    return 1 + sum(map(ord, text)) % 97 / 10


def test_without_weights_and_targets_a_batch_has_none(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    batch = next(iter(Batches(dataset, "train", vocabulary, batch_size=4)))
    assert batch.weights is None
    assert batch.targets == {}


def test_evaluation_sees_each_video_once_in_order(dataset: FolderDataset) -> None:
    batches = list(evaluation_batches(dataset, "validation", 3))
    assert [id for batch in batches for id in batch.ids] == [video.id for video in dataset.videos("validation")]
    assert [len(batch) for batch in batches] == [3, 1]
    assert all(batch.words.shape == (len(batch), 0, 0) for batch in batches)
    shared = [list(evaluation_batches(dataset, "validation", 3, rank=rank, world=2)) for rank in range(2)]
    assert [batch.ids for (batch,) in shared] == [batch.ids for batch in batches]


def test_wrong_settings_are_named(dataset: FolderDataset, vocabulary: Vocabulary) -> None:
    with pytest.raises(UserError, match="batch_size is 0"):
        Batches(dataset, "train", vocabulary, batch_size=0)
    with pytest.raises(UserError, match="rank 2 of 2"):
        Batches(dataset, "train", vocabulary, rank=2, world=2)
    with pytest.raises(UserError, match="no captioned videos in split test"):
        Batches(dataset, "test", vocabulary)
    with pytest.raises(UserError, match="no videos in split test"):
        list(evaluation_batches(dataset, "test", 2))
