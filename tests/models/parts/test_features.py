from __future__ import annotations

import pytest
import torch

from hoca.errors import UserError
from hoca.models import ModelConfig
from hoca.models.parts.features import FeatureBatch, step_mask

from ..tiny import HOLES, RAGGED, STEPS, WIDTHS, Lengths, lengths, videos

CONFIG = ModelConfig.of(WIDTHS, max_steps=6)


def test_modalities_come_in_the_models_order_and_only_those_that_some_video_has() -> None:
    given = videos()
    turned = {m: given[m] for m in reversed(given)}
    assert list(FeatureBatch.of(CONFIG, turned, {}).features) == list(WIDTHS)
    batch = FeatureBatch.of(CONFIG, given, lengths(motion=[0, 0, 0]))
    for part in (batch.features, batch.lengths, batch.masks, batch.present):
        assert list(part) == ["image", "audio"]


@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_masks_and_presence_follow_the_lengths(given: Lengths) -> None:
    batch = FeatureBatch.of(CONFIG, videos(), given)
    for m, length in given.items():
        assert batch.masks[m].sum(1).tolist() == length.tolist()
        assert batch.present[m].tolist() == [real > 0 for real in length.tolist()]
        for mask, real in zip(batch.masks[m], length.tolist(), strict=True):
            assert mask[:real].all()
        assert torch.equal(batch.lengths[m], length)


def test_without_lengths_every_step_is_real_and_nothing_is_ragged() -> None:
    batch = FeatureBatch.of(CONFIG, videos(), {})
    assert {m: length.tolist() for m, length in batch.lengths.items()} == {m: [t] * 3 for m, t in STEPS.items()}
    assert all(mask.all() for mask in batch.masks.values())
    assert batch.ragged == frozenset()


def test_ragged_are_those_with_a_padded_step_after_what_all_videos_lack_is_cut() -> None:
    given = lengths(image=[3, 3, 3], motion=[3, 1, 3], audio=[5, 5, 5])
    batch = FeatureBatch.of(CONFIG, videos(), given)
    assert batch.ragged == {"motion"}
    assert {m: x.shape[1] for m, x in batch.features.items()} == {"image": 3, "motion": 3, "audio": 5}
    assert {m: mask.shape[1] for m, mask in batch.masks.items()} == {"image": 3, "motion": 3, "audio": 5}


def test_only_real_steps_count_against_the_longest_input() -> None:
    long = {"audio": torch.zeros(2, 9, 3)}
    assert FeatureBatch.of(CONFIG, long, lengths(audio=[6, 2])).features["audio"].shape[1] == 6
    with pytest.raises(UserError, match="audio features have 7 steps, the model takes at most 6"):
        FeatureBatch.of(CONFIG, long, lengths(audio=[7, 2]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": [2, 0, 1], "motion": [1, 0, 1], "audio": [1, 0, 0]}, "video 1 of the batch has no modality"),
        ({"image": [0, 0, 0], "motion": [0, 0, 0], "audio": [0, 0, 0]}, "no video of the batch has any modality"),
        ({"image": [5, 1, 1]}, r"lengths\['image'\] says 5 steps, the features have 4"),
        ({"sound": [1, 1, 1]}, "the model has no modality 'sound'"),
    ],
)
def test_lengths_that_cannot_be_are_named(given: dict[str, list[int]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FeatureBatch.of(CONFIG, videos(), lengths(**given))


def test_a_length_of_a_modality_that_is_not_given_is_no_matter() -> None:
    batch = FeatureBatch.of(CONFIG, {"image": videos()["image"]}, lengths(image=[1, 2, 3], audio=[1, 2, 3]))
    assert list(batch.features) == ["image"]


def test_a_step_mask_is_true_up_to_the_length() -> None:
    mask = step_mask(torch.tensor([0, 2, 3]), 3, torch.device("cpu"))
    assert mask.tolist() == [[False, False, False], [True, True, False], [True, True, True]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_lengths_on_a_gpu_are_not_looked_at() -> None:
    features = {m: x.cuda() for m, x in videos().items()}
    given = {m: length.cuda() for m, length in lengths(image=[2, 1, 0], motion=[1, 1, 1]).items()}
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = FeatureBatch.of(CONFIG, features, given)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert batch.ragged == {"image", "motion"}
    assert {m: x.shape[1] for m, x in batch.features.items()} == STEPS  # nothing is cut
    assert batch.present["image"].tolist() == [True, True, False]
    assert batch.masks["audio"].all()
