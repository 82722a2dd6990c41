"""Means of the real steps, and the sum of what a video has."""

from __future__ import annotations

import pytest
import torch

from hoca.models.config import ModelConfig
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.pooling import FlaggedVideo, Pooled, SummedVideo

from ..tiny import HOLES, WIDTHS, videos

CONFIG = ModelConfig.of(WIDTHS, hidden=4, max_steps=6)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("kind", ["bilstm", "linear", "none"])
def test_a_mean_is_over_the_real_steps_alone(kind: str, normalise: bool) -> None:
    config = ModelConfig.of(WIDTHS, hidden=4, max_steps=6, normalise=normalise)
    part, features = Pooled(config, kind).double(), videos()
    batch = FeatureBatch.of(config, features, HOLES)
    found = part(batch)
    assert {m: x.shape[1] for m, x in found.items()} == part.widths
    for video in range(3):
        for m, length in HOLES.items():
            if length[video] == 0:
                continue
            alone = FeatureBatch.of(config, {m: features[m][video : video + 1, : length[video]]}, {})
            torch.testing.assert_close(found[m][video], part(alone)[m][0])
    if kind == "none" and not normalise:
        torch.testing.assert_close(found["image"][1], features["image"][1, :2].mean(0))


def test_what_a_video_lacks_is_no_term_of_the_sum() -> None:
    part = SummedVideo(WIDTHS, 4).double()
    pooled = {m: torch.randn(3, width).double() for m, width in WIDTHS.items()}
    present = {m: length > 0 for m, length in HOLES.items()}
    whole = part(pooled, present)
    for video in range(3):
        terms = [part.maps[m](pooled[m][video]) for m in WIDTHS if present[m][video]]
        torch.testing.assert_close(whole[video], part.bias + sum(terms))


def test_flags_tell_which_modalities_there_are() -> None:
    part = FlaggedVideo(WIDTHS).double()
    pooled = {m: torch.randn(3, width).double() for m, width in WIDTHS.items()}
    present = {m: length > 0 for m, length in HOLES.items()}
    found = part(pooled, present)
    assert found[:, -3:].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    torch.testing.assert_close(found[0, :5], part.missing["image"])
    torch.testing.assert_close(found[1, :5], pooled["image"][1])
