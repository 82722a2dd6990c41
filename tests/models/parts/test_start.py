from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from hoca.models import Captioner

from ..tiny import RAGGED, VOCABULARY, captioner, captions, videos

CATEGORIES = {"categories": ("music", "sports and action"), "category_width": 5}


def with_vectors() -> Captioner:
    model = captioner(**CATEGORIES)
    vectors = torch.randn(2, 5)
    model.set_category_vectors(vectors)
    torch.testing.assert_close(model.start.vectors, vectors.double())
    return model


def test_the_start_state_is_a_linear_map_of_the_categorys_vector() -> None:
    model = with_vectors()
    h, c = model.encode(videos(), RAGGED, torch.tensor([1, -1, 0])).start
    weight, bias = model.start.map.weight, model.start.map.bias
    for video, category in ((0, 1), (2, 0)):
        mapped = weight @ model.start.vectors[category] + bias
        torch.testing.assert_close(h[video], mapped[:8])
        torch.testing.assert_close(c[video], mapped[8:])
    assert (h[1] == 0).all()
    assert (c[1] == 0).all()


def test_an_unknown_category_is_no_category() -> None:
    model, features, words = with_vectors(), videos(), captions()
    unknown = model(features, RAGGED, words, torch.tensor([-1, -1, -1]))
    assert torch.equal(unknown, model(features, RAGGED, words))
    known = model(features, RAGGED, words, torch.tensor([0, -1, 1]))
    torch.testing.assert_close(known[1], unknown[1])
    assert not torch.allclose(known[0], unknown[0])


def test_every_caption_of_a_video_starts_alike() -> None:
    model, words = with_vectors(), captions()
    words[:, 1] = words[:, 0]
    logits = model(videos(), RAGGED, words, torch.tensor([0, 1, 0]))
    torch.testing.assert_close(logits[:, 0], logits[:, 1])


def test_without_categories_a_number_is_ignored() -> None:
    model, features, words = captioner(), videos(), captions()
    assert torch.equal(model(features, RAGGED, words, torch.tensor([3, 1, 0])), model(features, RAGGED, words))


def test_vectors_travel_with_the_weights_and_are_not_trained(tmp_path: Path) -> None:
    model, features, words, category = with_vectors(), videos(), captions(), torch.tensor([1, 0, 1])
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    loaded = Captioner(model.config, VOCABULARY).double().eval()
    loaded.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(loaded(features, RAGGED, words, category), model(features, RAGGED, words, category))
    assert all("vectors" not in key for key, _ in model.named_parameters())
    model(features, RAGGED, words, category).logsumexp(-1).sum().backward()
    assert model.start.map.weight.grad.abs().max() > 0


def test_bf16_autocast() -> None:
    model, features = with_vectors().float(), {m: x.float() for m, x in videos().items()}
    words, category = captions(), torch.tensor([1, -1, 0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model(features, RAGGED, words, category)
    torch.testing.assert_close(low.float(), model(features, RAGGED, words, category), atol=0.25, rtol=0.05)
