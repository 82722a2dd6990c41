from __future__ import annotations

import pytest
import torch

from hoca.errors import UserError
from hoca.models.parts.features import FeatureBatch

from ..tiny import HOLES, RAGGED, captioner, videos


def test_padded_steps_are_zero_and_real_ones_are_those_of_the_video_alone() -> None:
    model, features = captioner(), videos()
    for given in (RAGGED, HOLES):
        encoded = model.encode(features, given).encoded
        for m, lengths in given.items():
            for video, real in enumerate(lengths.tolist()):
                assert (encoded[m][video, real:] == 0).all()
                if real:
                    lstm = model.encoder.lstms[m]
                    expected, _ = lstm(features[m][video : video + 1, :real])
                    torch.testing.assert_close(encoded[m][video : video + 1, :real], expected)


def test_a_mask_in_place_of_lengths_gives_the_same() -> None:
    model, features = captioner(), videos()
    encoder, expected = model.encoder, model.encoder(FeatureBatch.of(model.config, features, RAGGED))
    for m, lengths in RAGGED.items():
        real = torch.arange(features[m].shape[1]) < lengths[:, None]
        torch.testing.assert_close(encoder.encode_masked(m, features[m], real), expected[m])


def test_as_many_steps_as_the_model_is_made_for_are_taken_and_no_more() -> None:
    features = videos()
    assert captioner(max_steps=5).encode(features, {}).encoded["audio"].shape[1] == 5
    with pytest.raises(UserError, match="audio features have 5 steps, the model takes at most 4"):
        captioner(max_steps=4).encode(features, {})


def test_every_output_of_both_directions_is_kept() -> None:
    encoded = captioner().encode(videos(), {}).encoded
    assert {m: tuple(x.shape) for m, x in encoded.items()} == {
        "image": (3, 4, 16),
        "motion": (3, 3, 16),
        "audio": (3, 5, 16),
    }


def test_encoder_dropout_acts_in_training_only_and_leaves_padding_zero() -> None:
    model, features = captioner(encoder_dropout=0.4), videos()
    once, again = (model.encode(features, RAGGED).encoded for _ in range(2))
    assert all(torch.equal(once[m], again[m]) for m in once)
    model.train()
    once, again = (model.encode(features, RAGGED).encoded for _ in range(2))
    for m, lengths in RAGGED.items():
        assert not torch.equal(once[m], again[m])
        assert all((once[m][video, real:] == 0).all() for video, real in enumerate(lengths.tolist()))


def test_encoder_dropout_is_on_the_features_and_on_the_output() -> None:
    model, features = captioner(encoder_dropout=0.4).train(), videos()
    dropped: list[torch.Tensor] = []
    model.encoder.dropout.register_forward_hook(lambda _, __, out: dropped.append(out))
    memory = model.encode({"image": features["image"]}, {})
    assert [tuple(x.shape) for x in dropped] == [(3, 4, 5), (3, 4, 16)]
    assert torch.equal(memory.encoded["image"], dropped[1])
