"""What every captioner's losses, its own among them, may and may not depend on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.models import names
from hoca.training.objectives import TeacherForcing, summed

from .test_contract import REFERENCES, all_losses, batch_of, captioner, objective, whole_captions
from .tiny import HOLES, RAGGED, WIDTHS, alone, videos

every_model = pytest.mark.parametrize("name", names())
Lengths = dict[str, torch.Tensor]


def without(missing: str) -> Lengths:
    return {m: torch.zeros_like(length) if m == missing else length for m, length in RAGGED.items()}


@every_model
@pytest.mark.parametrize("missing", WIDTHS)
def test_a_missing_modality_costs_what_it_does_not_to_pass_it(name: str, missing: str) -> None:
    model, words, features = captioner(name), whole_captions(), videos()
    given = {m: x for m, x in features.items() if m != missing}
    expected = all_losses(model, given, {m: RAGGED[m] for m in given}, words)
    torch.testing.assert_close(all_losses(model, features, without(missing), words), expected)


@every_model
@pytest.mark.parametrize("lengths", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_a_batch_costs_what_its_videos_cost_one_by_one(name: str, lengths: Lengths) -> None:
    model, words, features = captioner(name), whole_captions(), videos()
    one_by_one = torch.zeros((), dtype=torch.float64)
    for video, references in enumerate(REFERENCES):
        batch = batch_of(*alone(features, lengths, video), words[video : video + 1])
        batch.targets = {key: values[None] for key, values in model.targets(references).items()}
        one_by_one += summed(TeacherForcing(model, objective(model))(batch))
    torch.testing.assert_close(all_losses(model, features, lengths, words), one_by_one)


@every_model
@pytest.mark.parametrize("lengths", [RAGGED, HOLES, without("image")], ids=["ragged", "holes", "none has pictures"])
def test_padding_that_is_not_cut_off_costs_nothing(
    name: str, lengths: Lengths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU no length is read on the host, so padding stays; here it is NaN."""
    model, words, features = captioner(name), whole_captions(), videos()
    expected = all_losses(model, features, lengths, words)

    def uncut(given: Any, lengths: Any) -> tuple[Any, Any, frozenset[str]]:
        return given, {m: lengths.get(m, torch.full((len(x),), x.shape[1])) for m, x in given.items()}, frozenset(given)

    monkeypatch.setattr("hoca.models.parts.features._looked_at", uncut)
    longer = {
        m: torch.cat([x, torch.full((len(x), 6 - x.shape[1], x.shape[2]), float("nan"), dtype=x.dtype)], dim=1)
        for m, x in features.items()
    }
    torch.testing.assert_close(all_losses(model, longer, lengths, words), expected)
