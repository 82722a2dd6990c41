"""Several checkpoints as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hoca.checkpoint import Checkpoint, join, load_model, model_facts, quantize_int8, write_checkpoint
from hoca.errors import UserError
from hoca.generation import Confidence, Search
from hoca.models import create
from hoca.text import Vocabulary

WORDS = Vocabulary(["a", "man", "runs"])
WIDTHS = {"image": 6, "change": 5}
SPECIFICATION = {"image": {"backbone": "test", "steps": 5}}


def write(
    path: Path,
    seed: int = 0,
    name: str = "l-hoca-ub",
    words: Vocabulary = WORDS,
    widths: dict[str, int] = WIDTHS,
    specification: Any = SPECIFICATION,
    **options: Any,
) -> Path:
    torch.manual_seed(seed)
    detector = {"word_detector": ["image"]} | {"hidden": 8, "embedding": 7, "attention": 6, "max_steps": 6}
    model = create(name, widths, words, **detector | options)
    for buffer in model.buffers():
        torch.nn.init.normal_(buffer)  # of the detector, which is fitted elsewhere
    facts = model_facts(model, specification, Search(beam=2 + seed, detector_weight=0.3))
    facts["confidence"] = Confidence(bias=float(seed)).to_json()
    write_checkpoint(path, Checkpoint({f"model.{key}": value for key, value in model.state_dict().items()}, facts))
    return path


def given() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]:
    torch.manual_seed(9)
    features = {name: torch.randn(2, 4, width) for name, width in WIDTHS.items()}
    words = torch.randint(WORDS.unk + 1, len(WORDS), (2, 3, 5))
    words[:, :, 0] = WORDS.bos
    return features, {"image": torch.tensor([4, 2]), "change": torch.tensor([3, 0])}, words


def test_a_joined_file_is_the_mean_of_its_members_with_all_else_of_the_first(tmp_path: Path) -> None:
    # Other sizes, no detector and a shorter input of its own: members differ in all that is not common.
    paths = [
        write(tmp_path / "a.safetensors"),
        write(tmp_path / "b.safetensors", 1),
        write(tmp_path / "c.safetensors", 2, "hoca-u", hidden=4, embedding=5, max_steps=5, word_detector=[]),
    ]
    joined, out = join(paths), tmp_path / "joined.safetensors"
    write_checkpoint(out, joined)
    found, members = load_model(out), [load_model(path) for path in paths]
    first = members[0]
    with torch.no_grad():
        logits, features = found.model(*given()), given()[:2]
        expected = torch.stack([each.model(*given()).softmax(-1) for each in members]).mean(0)
        evidence = [each.encode(*features).evidence for each in (found.model, first.model)]
    torch.testing.assert_close(logits.softmax(-1), expected)
    assert evidence[0] is not None
    torch.testing.assert_close(*evidence)
    assert found.model.name == "ensemble"
    assert found.model.config.max_steps == {"image": 5, "change": 5}
    assert (found.search, found.confidence) == (first.search, first.confidence)
    assert (found.specification, found.model.vocabulary) == (SPECIFICATION, WORDS)
    assert sum("detector" in key for key in joined.tensors) == 6

    packed = tmp_path / "packed.safetensors"
    write_checkpoint(packed, Checkpoint(quantize_int8(joined.tensors), joined.facts))
    with torch.no_grad():
        near = load_model(packed).model(*given())
    torch.testing.assert_close(near, logits, atol=0.02, rtol=0.02)
    assert not torch.equal(near, logits)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"words": Vocabulary(["a", "dog", "runs"])}, "the vocabulary of"),
        ({"widths": {"image": 6}, "name": "hoca-u"}, "the modalities of"),
        ({"widths": {"change": 5, "image": 6}}, "the modalities of"),
        ({"categories": ["sports"], "category_width": 3}, "the categories of"),
        ({"specification": {"image": {"backbone": "other", "steps": 5}}}, "the feature specification of"),
    ],
    ids=["words", "fewer modalities", "another order", "categories", "features"],
)
def test_models_of_different_things_are_not_joined(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    first, other = write(tmp_path / "first.safetensors"), write(tmp_path / "other.safetensors", 1, **changes)
    with pytest.raises(UserError) as raised:
        join([first, other])
    assert str(raised.value).startswith(f"{other} does not have {complaint} {first}: ")
    assert "\n" not in str(raised.value)


def test_neither_ensembles_nor_too_many_nor_nothing(tmp_path: Path) -> None:
    path, out = write(tmp_path / "a.safetensors"), tmp_path / "joined.safetensors"
    write_checkpoint(out, join([path]))
    for wrong, complaint in (
        ([path, out], f"{out} is an ensemble already"),
        ([path] * 9, "an ensemble of 9 members: 1 to 8 are possible"),
        ([], "nothing to join"),
    ):
        with pytest.raises(UserError, match=complaint):
            join(wrong)
