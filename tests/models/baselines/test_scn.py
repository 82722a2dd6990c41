"""SCN: tags from the training captions, predicted from the video, make the weights of the decoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import hoca
from hoca.models import create
from hoca.training import train
from hoca.training.objectives import TeacherForcing

from ...training.tiny import column, tiny, write_dataset
from ..test_contract import REFERENCES, batch_of, captioner, objective, whole_captions
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos

SIZES = {"hidden": 8, "embedding": 7, "max_steps": 6, "dropout": 0.0, "factors": 6}


def words_of(model: Any) -> list[str]:
    return [model.vocabulary.tokens[id] for id in model.tags.tolist() if id >= 0]


def test_tags_are_the_most_frequent_content_words() -> None:
    model: Any = create("scn", WIDTHS, VOCABULARY, **SIZES, tags=3)
    assert words_of(model) == []
    model.prepare([["a man sings", "the man sings in a purple coat"], ["a dog runs", "a man"]])
    assert words_of(model) == ["man", "sings", "dog"]  # purple is no word of the vocabulary
    model.prepare([["a red dog"]])
    assert words_of(model) == ["man", "sings", "dog"]  # which its weights know by now


def test_a_video_has_the_tags_that_any_of_its_captions_says() -> None:
    model: Any = create("scn", WIDTHS, VOCABULARY, **SIZES, tags=8)
    model.prepare(REFERENCES)
    assert words_of(model) == ["dog", "man", "red", "runs", "loudly", "sings"]
    assert model.targets(["a man and a dog", "the dog runs"])["tags"].tolist() == [1, 1, 0, 1, 0, 0, 0, 0]


def test_the_loss_is_the_cross_entropy_of_the_tags_for_each_caption() -> None:
    model: Any = captioner("scn")
    words, features = whole_captions(), videos()  # the last video has one caption, the others two
    losses = TeacherForcing(model, objective(model))(batch_of(features, RAGGED, words, model))
    logits = model.encode(features, RAGGED).logits
    known = model.tags >= 0
    expected = 0.0
    for video, count in enumerate((2, 2, 1)):
        said = model.targets(REFERENCES[video])["tags"].double()
        expected += count * F.binary_cross_entropy_with_logits(logits[video][known], said[known], reduction="sum")
    torch.testing.assert_close(losses["tags"].loss, expected)
    assert losses["tags"].weight == 1.0


def test_the_words_do_not_teach_the_tagger() -> None:
    model: Any = captioner("scn")
    model(videos(), RAGGED, captions()).sum().backward()
    assert all(p.grad is None for p in model.head.parameters())
    assert model.pooled.encoder.lstms["image"].weight_ih_l0.grad is not None


def test_a_tag_without_a_word_says_nothing() -> None:
    """There may be fewer content words than tags."""
    model: Any = captioner("scn", tags=9)
    unknown = model.tags < 0
    assert bool(unknown.any())
    words, features = whole_captions(), videos()
    expected = model(features, RAGGED, words)
    with torch.no_grad():
        model.head.outer.bias[unknown] += 5.0
    torch.testing.assert_close(model(features, RAGGED, words), expected, atol=0.0, rtol=0.0)
    with torch.no_grad():
        model.head.outer.bias[~unknown] += 5.0
    assert not torch.allclose(model(features, RAGGED, words), expected)


@pytest.mark.parametrize("encoder", ["none", "linear", "bilstm"])
def test_a_tagger_that_learns_no_more_predicts_what_it_does_in_use(encoder: str) -> None:
    model: Any = captioner("scn", encoder=encoder, dropout=0.5, encoder_dropout=0.5)
    model.dropout.p = 0.0  # that of the tags themselves
    features, codes = videos(), []
    model.cell.coded = lambda code, *others, coded=model.cell.coded: (codes.append(code), coded(code, *others))[1]
    model.encode(features, RAGGED)
    model.train().encode(features, RAGGED)
    model.head.requires_grad_(False)
    model.encode(features, RAGGED)
    assert model.training
    assert model.head.training
    assert not torch.allclose(codes[1], codes[0])
    torch.testing.assert_close(codes[2], codes[0])


def test_the_first_input_is_the_video() -> None:
    model: Any = captioner("scn")
    memory, words = model.encode(videos(), RAGGED), captions()
    before = model.decode(memory, words, model.begin(memory, 2)).hidden
    with torch.no_grad():
        model.words.weight[VOCABULARY.bos] += 1.0
    torch.testing.assert_close(model.decode(memory, words, model.begin(memory, 2)).hidden, before)


def test_it_tells_the_tags_that_it_found() -> None:
    model: Any = captioner("scn")
    memory = model.encode(videos(), RAGGED)
    found = model.look(memory, captions()).found["tags"]
    assert list(found) == words_of(model)
    torch.testing.assert_close(torch.stack(list(found.values()), 1), torch.sigmoid(memory.logits[:, model.tags >= 0]))


@pytest.mark.parametrize("video", ["first", "every"])
def test_what_a_tag_did_is_what_the_word_would_lose_without_it(video: str) -> None:
    model: Any = captioner("scn", video=video)
    memory, words = model.encode(videos(), HOLES), captions()
    with torch.inference_mode():
        shown = model.look(memory, words).matrices["what tags did"]
    assert shown.columns.names == tuple(words_of(model))
    code, step = torch.sigmoid(memory.logits).detach(), 1e-6

    def log_p(code: torch.Tensor) -> torch.Tensor:
        other = replace(memory, coded=model.cell.coded(code, memory.pooled, memory.present))
        logp = model.decode(other, words, model.begin(other, 2)).logits.log_softmax(-1)
        return logp[:, :, :-1].gather(3, words[:, :, 1:, None]).squeeze(3)

    said = (words != VOCABULARY.pad) & (words != VOCABULARY.eos)
    for place, tag in enumerate((model.tags >= 0).nonzero().flatten().tolist()):
        change = torch.zeros_like(code)
        change[:, tag] = step * code[:, tag]
        expected = (log_p(code + change) - log_p(code - change)) / (2 * step) * said[:, :, :-1]
        torch.testing.assert_close(shown.values[:, :, :-1, place], expected, rtol=1e-4, atol=1e-6)


def test_explaining_leaves_no_gradients_behind() -> None:
    model: Any = captioner("scn")
    with torch.no_grad():
        looked = model.look(model.encode(videos(), RAGGED), captions())
    assert not looked.matrices["what tags did"].values.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_ensemble_of_it_tells_in_inference_mode_what_tags_did() -> None:
    member = {"name": "scn", "factors": 6, "tags": 5}
    sizes = {"hidden": 8, "embedding": 7, "max_steps": 6, "dropout": 0.0}
    model = create("ensemble", WIDTHS, VOCABULARY, **sizes, members=(member, member)).double().eval()
    model.prepare(REFERENCES)
    features, words = videos(), captions()
    expected: Any = model.look(model.encode(features, HOLES), words)
    with torch.inference_mode():
        found: Any = model.look(model.encode(features, HOLES), words.clone())
    shown = found.matrices["what tags did"].values
    torch.testing.assert_close(shown, expected.matrices["what tags did"].values)
    assert shown.any()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("scn")
    data = write_dataset(folder / "data")
    keys = {"model": "scn", "tags": 12, "factors": 8, "dropout": 0.0, "epochs": 10, "hidden": 16}
    return data, train(tiny(data, folder / "run", **keys))


def test_the_tagger_learns_and_a_checkpoint_keeps_its_tags(trained: tuple[Path, Path]) -> None:
    _, run = trained
    assert column(run, "tags")[-1] < column(run, "tags")[0] / 3
    assert set(words_of(hoca.load(run).model)) == {"red", "green", "blue", "white", "bell", "drum", "horn"}


def test_a_model_that_begins_from_another_keeps_its_tags(trained: tuple[Path, Path], tmp_path: Path) -> None:
    data, run = trained
    lines = (data / "captions.jsonl").read_text().replace("horn", "violin").replace("bell", "violin")
    other = write_dataset(tmp_path / "data")
    (other / "captions.jsonl").write_text(lines)
    keys = {"init_from": str(run), "objective": "scst-greedy", "epochs": 1, "samples": 2}
    recipe = tiny(other, tmp_path / "run", **keys, model="scn", tags=12, factors=8, hidden=16)
    found = hoca.load(train(recipe)).model
    assert "violin" in found.vocabulary
    assert words_of(found) == words_of(hoca.load(run).model)
