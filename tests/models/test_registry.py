"""What holds for every registered model, on the day it is registered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import hoca.models.registry as registry
from hoca.data.vocabulary import Vocabulary
from hoca.errors import UserError
from hoca.models import Captioner, Config, create, names, register

from .tiny import HOLES, RAGGED, SIZES, VOCABULARY, WIDTHS, Lengths, alone, captioner, captions, videos

every_model = pytest.mark.parametrize("name", names())


@every_model
def test_forward_gives_a_score_per_word_of_the_vocabulary(name: str) -> None:
    logits = captioner(name)(videos(), RAGGED, captions())
    assert logits.shape == (3, 2, 4, len(VOCABULARY))
    assert logits.isfinite().all()


@every_model
def test_backward_reaches_every_parameter(name: str) -> None:
    model = captioner(name)
    model(videos(), RAGGED, captions()).logsumexp(-1).sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().max() > 0, key


@every_model
def test_backward_stays_finite_when_every_video_lacks_something(name: str) -> None:
    model = captioner(name)
    features = {m: x.requires_grad_() for m, x in videos().items()}
    model(features, HOLES, captions()).logsumexp(-1).sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None] + [x.grad for x in features.values()]
    assert all(g.isfinite().all() for g in gradients)
    assert features["image"].grad[0].abs().max() == 0


@every_model
def test_a_padded_batch_equals_the_videos_one_at_a_time(name: str) -> None:
    model, features, words = captioner(name), videos(), captions()
    for m, length in RAGGED.items():
        for video, real in enumerate(length.tolist()):
            features[m][video, real:] = float("nan")
    logits = model(features, RAGGED, words)
    for video in range(3):
        given, full = alone(features, RAGGED, video)
        torch.testing.assert_close(logits[video : video + 1], model(given, full, words[video : video + 1]))


@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
@every_model
def test_what_padding_holds_reaches_no_gradient(name: str, given: Lengths) -> None:
    model, features, words = captioner(name), videos(), captions()
    dirty = {m: x.clone() for m, x in features.items()}
    for m, length in given.items():
        for video, real in enumerate(length.tolist()):
            dirty[m][video, real:] = float("nan")
    gradients = []
    for x in (features, dirty):
        model.zero_grad()
        model(x, given, words).logsumexp(-1).sum().backward()
        gradients.append({key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
    assert all(g.isfinite().all() for g in gradients[0].values())
    torch.testing.assert_close(gradients[0], gradients[1])


@every_model
def test_bf16_autocast_stays_close_to_float32(name: str) -> None:
    model, words = captioner(name).float(), captions()
    features = {m: x.float() for m, x in videos().items()}
    for given in (RAGGED, HOLES):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = model(features, given, words)
        torch.testing.assert_close(low.float(), model(features, given, words), atol=0.25, rtol=0.05)
        low.float().logsumexp(-1).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@every_model
def test_saved_and_loaded_it_gives_equal_outputs(name: str, tmp_path: Path) -> None:
    model, features, words = captioner(name), videos(), captions()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    text = json.dumps(model.config.to_json())
    loaded = Captioner(Config.from_json(json.loads(text)), Vocabulary(VOCABULARY.words)).double().eval()
    loaded.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(loaded(features, RAGGED, words), model(features, RAGGED, words))
    assert loaded.config == model.config


def test_the_papers_nine_names_are_there_and_patterns_select() -> None:
    nine = ["hoca-u", "hoca-b", "l-hoca-b", "hoca-t", "l-hoca-t", "hoca-ub", "l-hoca-ub", "hoca-ubt", "l-hoca-ubt"]
    assert set(nine) <= set(names())
    assert [name for name in names("l-*") if name in nine] == ["l-hoca-b", "l-hoca-t", "l-hoca-ub", "l-hoca-ubt"]


@pytest.mark.parametrize(
    ("name", "form", "orders"),
    [
        ("hoca-u", "exact", {1}),
        ("hoca-t", "exact", {3}),
        ("l-hoca-b", "low-rank", {2}),
        ("hoca-ub", "exact", {1, 2}),
        ("l-hoca-ubt", "low-rank", {1, 2, 3}),
    ],
)
def test_a_name_stands_for_a_form_and_orders(name: str, form: str, orders: set[int]) -> None:
    config = create(name, WIDTHS, VOCABULARY, **SIZES).config
    assert {len(group) for group in config.groups} == orders
    assert config.form == form


def test_the_defaults_are_the_papers_settings() -> None:
    config = create("l-hoca-ubt", {"image": 2, "motion": 2, "audio": 2}, VOCABULARY).config
    assert (config.hidden, config.attention, config.embedding) == (512, 512, 300)
    assert (config.dropout, config.encoder_dropout, config.rank) == (0.5, 0.0, 1)
    assert (config.merge, config.fusion, config.share_projections) == ("weights", "hierarchical", False)
    assert config.max_steps == {"image": 80, "motion": 80, "audio": 80}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no model 'l-hoka-ubt'.*'l-hoca-ubt'"):
        create("l-hoka-ubt", WIDTHS, VOCABULARY)


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no option 'hiden'.*'hidden'"):
        create("hoca-u", WIDTHS, VOCABULARY, hiden=8)


def test_a_function_becomes_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_constructors", dict(registry._constructors))

    @register
    def image_only(modalities: dict[str, int], vocabulary: Vocabulary, **options: object) -> Captioner:
        return create("hoca-u", modalities, vocabulary, **{"groups": [("image",)]} | options)

    assert "image-only" in names()
    assert create("image-only", WIDTHS, VOCABULARY, **SIZES).config.groups == (("image",),)
