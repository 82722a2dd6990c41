from __future__ import annotations

import pytest
import torch

from hoca.errors import UserError
from hoca.models import Captioner
from hoca.models.parts.detector import Detector, means

from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, Lengths, alone, captioner, lengths, videos


def detecting() -> tuple[Captioner, Detector]:
    model = captioner(word_detector=("image", "audio"))
    assert model.detector is not None
    for buffer in model.detector.buffers():
        buffer.normal_()
    return model, model.detector


def test_means_are_of_roots_over_real_steps() -> None:
    x = torch.tensor([[[4.0, -9.0], [0.0, 1.0], [7.0, 7.0]], [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]])
    found = means(x, torch.tensor([2, 0]))
    torch.testing.assert_close(found[0], torch.tensor([1.0, -1.0]))
    assert bool(found[1].isnan().all())


@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_evidence_is_of_each_video_alone(given: Lengths) -> None:
    model, _ = detecting()
    features = videos()
    together = model.encode(features, given).evidence
    assert together is not None
    assert together.shape == (3, len(VOCABULARY))
    for video in range(3):
        single = model.encode(*alone(features, given, video)).evidence
        assert single is not None
        torch.testing.assert_close(single[0], together[video])


def test_a_missing_modality_is_an_average_one() -> None:
    _, detector = detecting()
    features = {"image": videos()["image"]}
    mean = detector.mean[WIDTHS["image"] :]
    average = mean.square().copysign(mean).expand(3, 1, -1)
    given = lengths(image=[4, 4, 4], audio=[1, 1, 1])
    torch.testing.assert_close(detector(features | {"audio": average}, given), detector(features, given))


def test_a_model_without_a_detector_has_no_evidence_and_no_weights_of_it() -> None:
    model = captioner()
    assert model.encode(videos(), RAGGED).evidence is None
    assert not [key for key in model.state_dict() if key.startswith("detector")]


def test_training_leaves_the_detector_alone() -> None:
    model, _ = detecting()
    assert not [name for name, _ in model.named_parameters() if name.startswith("detector")]


def test_an_unknown_modality_is_refused() -> None:
    with pytest.raises(UserError, match="word_detector names 'smell'"):
        captioner(word_detector=("smell",))
