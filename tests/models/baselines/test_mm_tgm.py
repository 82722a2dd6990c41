"""MM-TGM: a student of the captions' topics, whose prediction makes the weights of the decoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import hoca
from hoca.models import create
from hoca.models.parts.topics import topics_of
from hoca.training import train
from hoca.training.objectives import TeacherForcing

from ...training.tiny import changed, column, tiny, write_dataset
from ..test_contract import REFERENCES, batch_of, captioner, objective, whole_captions
from ..tiny import RAGGED, VOCABULARY, WIDTHS, captions, videos


def test_a_target_is_what_the_videos_captions_have_of_each_topic() -> None:
    model: Any = captioner("mm-tgm")
    document = [VOCABULARY[word] for word in ("dog", "runs", "dog")]
    found = model.targets(["a dog runs", "the dog in a spaceship"])["topics"]
    assert torch.equal(found, topics_of(document, model.topics))


def topic_loss(model: Any, logits: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    memory = replace(model.encode(videos(), RAGGED), logits=logits)
    batch = batch_of(videos(), RAGGED, whole_captions()[:, :1])
    return model.losses(memory, replace(batch, targets={"topics": theta}), None)["topics"].loss


def test_the_loss_is_the_divergence_of_the_predicted_topics() -> None:
    model = captioner("mm-tgm")
    theta = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]).double()
    z = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]).double()
    expected = 0.5 * torch.tensor(2.0).log() + torch.tensor(2.0).log()
    torch.testing.assert_close(topic_loss(model, z.log(), theta).float(), expected)


def test_a_student_that_agrees_learns_nothing() -> None:
    model = captioner("mm-tgm")
    logits = torch.randn(3, 3).double().requires_grad_()
    loss = topic_loss(model, logits, logits.detach().softmax(1))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert abs(loss.item()) < 1e-12
    assert gradient.abs().max() < 1e-12


def test_the_words_teach_the_student_too() -> None:
    model: Any = captioner("mm-tgm")
    model(videos(), RAGGED, captions()).logsumexp(-1).sum().backward()
    assert model.head.outer.weight.grad.abs().max() > 0


def test_the_loss_counts_once_for_each_caption() -> None:
    model, words, features = captioner("mm-tgm"), whole_captions(), videos()  # two, two and one captions
    whole = TeacherForcing(model, objective(model))(batch_of(features, RAGGED, words, model))["topics"].loss
    first = TeacherForcing(model, objective(model))(batch_of(features, RAGGED, words[:, :1], model))["topics"].loss
    second = TeacherForcing(model, objective(model))(batch_of(features, RAGGED, words[:, 1:], model))["topics"].loss
    torch.testing.assert_close(whole, first + second)


@pytest.mark.parametrize("video", ["first", "every"])
def test_the_video_enters_first_or_at_every_step(video: str) -> None:
    sizes = {"hidden": 8, "embedding": 7, "max_steps": 6, "factors": 6, "topics": 3}
    model: Any = create("mm-tgm", WIDTHS, VOCABULARY, **sizes, video=video)
    assert bool(model.cell.videos) == (video == "every")
    assert model.eval()({m: x.float() for m, x in videos().items()}, RAGGED, captions()).isfinite().all()


def test_it_tells_the_topics_by_their_words() -> None:
    model: Any = captioner("mm-tgm")
    found = model.look(model.encode(videos(), RAGGED), captions()).found["topics"]
    assert len(found) == 3
    assert all(set(name.partition(" #")[0].split(", ")) <= set(VOCABULARY.words) for name in found)
    torch.testing.assert_close(torch.stack(list(found.values())).sum(0), torch.ones(3).double())


def test_before_it_is_prepared_it_has_no_topics_to_tell() -> None:
    model = create("mm-tgm", WIDTHS, VOCABULARY, hidden=4, factors=4, max_steps=6, topics=3)
    features = {m: x.float() for m, x in videos().items()}
    assert model.look(model.encode(features, RAGGED), captions()).found == {}
    assert model.targets(REFERENCES[0])["topics"].sum() == pytest.approx(1.0)


def test_the_teacher_reads_training_captions_alone(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    recipe = tiny(data, tmp_path / "one", model="mm-tgm", topics=4, factors=8, hidden=16, epochs=6)
    first = hoca.load(train(recipe)).model
    assert column(tmp_path / "one", "topics")[-1] < column(tmp_path / "one", "topics")[0] / 2
    lines = (data / "captions.jsonl").read_text().splitlines()
    others = [line if '"train"' in line else line.replace("red", "white").replace("bell", "horn") for line in lines]
    assert others != lines
    (data / "captions.jsonl").write_text("\n".join(others) + "\n")
    second = hoca.load(train(changed(recipe, run=str(tmp_path / "two")))).model
    assert torch.equal(first.topics, second.topics)
    assert first.topics.any()
