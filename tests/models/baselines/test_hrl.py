"""HRL: goals hold for a segment, the critic says where one ends, and baselines learn beside the optimiser."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.models import create
from hoca.models.baselines.hrl import Critic
from hoca.models.parts.least_squares import Baseline
from hoca.models.trees import map_tensors
from hoca.text import Vocabulary
from hoca.training.objectives import TeacherForcing

from ..test_contract import batch_of, captioner, objective, sizes, whole_captions
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos


def rolled(model: Any, words: torch.Tensor) -> Any:
    memory = model.encode(videos(), RAGGED)
    return model.roll(memory, words, model.begin(memory, words.shape[1]))[0]


def test_a_goal_holds_until_the_critic_says_that_its_segment_ended() -> None:
    model, words = captioner("hrl"), captions(rows=6, words=8)
    found = rolled(model, words)
    assert found.opened[:, :, 0].all()
    assert 0 < int(found.opened[:, :, 1:].sum()) < found.opened[:, :, 1:].numel()
    same = (found.goals[:, :, 1:] == found.goals[:, :, :-1]).all(-1)
    assert torch.equal(same, ~found.opened[:, :, 1:])
    stays = (found.manager[:, :, 1:] == found.manager[:, :, :-1]).all(-1)
    assert torch.equal(stays, ~found.opened[:, :, 1:])  # its LSTM moves on with the segments


def test_the_manager_may_move_on_with_every_word() -> None:
    model = captioner("hrl")
    other: Any = create("hrl", WIDTHS, VOCABULARY, **sizes("hrl"), manager_clock="word").double().eval()
    other.load_state_dict(model.state_dict())
    found = rolled(other, captions(rows=6, words=8))
    assert not (found.manager[:, :, 1:] == found.manager[:, :, :-1]).all(-1).any()
    same = (found.goals[:, :, 1:] == found.goals[:, :, :-1]).all(-1)
    assert torch.equal(same, ~found.opened[:, :, 1:])


def test_a_critic_that_never_ends_a_segment_leaves_a_worker_with_one_goal() -> None:
    model: Any = captioner("hrl")
    model.critic.output.bias.data.fill_(-1e4)
    words = captions().clamp(min=VOCABULARY.unk)
    words[:, :, 0] = VOCABULARY.bos
    memory = model.encode(videos(), RAGGED)
    state = model.begin(memory, 2)
    found, _ = model.roll(memory, words, state)
    assert (found.goals == found.goals[:, :, :1]).all()
    (h, c), goal = state.worker, found.goals[:, :, 0]
    for place in range(words.shape[2]):
        ahead = model.worker.cell.ahead(model.worker.words(words[:, :, place]))
        context, _ = model.worker.attention.look(h, memory.worker, memory.masks)
        h, c = model.worker.cell(ahead, torch.cat([context, goal], dim=-1), (h, c))
        torch.testing.assert_close(found.hidden[:, :, place], h)


def test_hypotheses_keep_their_own_goals_when_they_change_places() -> None:
    model, words = captioner("hrl"), captions(rows=4, words=5)
    memory, order = model.encode(videos(), RAGGED), torch.tensor([2, 0, 3, 1])
    found, state = model.roll(memory, words[:, :, :4], model.begin(memory, 4))
    opened = found.opened[:, :, -1]
    assert bool((opened != opened[:, :1]).any())  # they stand at different places of their segments
    moved = map_tensors(lambda x: x[:, order], state)
    assert torch.equal(moved.goal, state.goal[:, order])
    after = model.decode(memory, words[:, order, 4:], moved)
    expected = model.decode(memory, words[:, :, 4:], state)
    torch.testing.assert_close(after.logits, expected.logits[:, order])


def critic_of(text: str) -> tuple[Critic, Vocabulary, torch.Tensor]:
    vocabulary = Vocabulary.build([text])
    config = create("hrl", WIDTHS, vocabulary, **sizes("hrl")).config
    return Critic(config, vocabulary), vocabulary, torch.tensor(vocabulary.encode(text))


@pytest.mark.parametrize(
    ("caption", "segments"),
    [
        ("a man is playing a guitar on a stage", ["a man", "is playing", "a guitar", "on a stage"]),
        ("two dogs running in the grass", ["two dogs", "running", "in the grass"]),
        ("a woman and her child walk", ["a woman", "and her child walk"]),
    ],
)
def test_segments_end_before_articles_prepositions_and_verbs(caption: str, segments: list[str]) -> None:
    critic, vocabulary, words = critic_of(caption)
    ends = critic.ends(words[1:-1], words[2:], vocabulary.eos).tolist()
    found, said = [], []
    for word, end in zip(caption.split(), ends, strict=True):
        said.append(word)
        if end:
            found.append(" ".join(said))
            said = []
    assert found == segments


def test_the_critics_loss_is_of_every_word_and_reaches_nothing_else() -> None:
    model: Any = captioner("hrl")
    words = whole_captions()
    losses = TeacherForcing(model, objective(model))(batch_of(videos(), HOLES, words))
    losses["critic"].loss.backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None and bool(parameter.grad.any())) == name.startswith("critic."), name
    expected = 0.0
    for caption in words.flatten(0, 1):
        said = [int(word) for word in caption if word not in (VOCABULARY.pad, VOCABULARY.bos, VOCABULARY.eos)]
        whole = torch.tensor([[[VOCABULARY.bos, *said]]])
        for place, word in enumerate(said):
            logit = model.critic(whole, model.critic.begin(1, 1))[0][0, 0, place + 1].detach()
            following = said[place + 1] if place + 1 < len(said) else VOCABULARY.eos
            ends = following == VOCABULARY.eos or (
                VOCABULARY.tokens[following] == "a" and VOCABULARY.tokens[word] != "a"
            )
            expected -= float(torch.nn.functional.logsigmoid(logit if ends else -logit))
    assert float(losses["critic"].loss.detach()) == pytest.approx(expected)


def test_noise_is_added_to_goals_in_training_alone() -> None:
    torch.manual_seed(0)
    model: Any = create("hrl", WIDTHS, VOCABULARY, **sizes("hrl"), goal_noise=0.3).double()
    words = captions()
    assert torch.equal(*(model.eval().manager.set_goal(torch.ones(2, 5).double()) for _ in range(2)))
    spread = model.train().manager.set_goal(torch.ones(4000, 5).double()).detach()
    torch.testing.assert_close(spread.std(0), torch.full((4,), 0.3).double(), rtol=0.1, atol=0.0)
    assert rolled(model.eval(), words).goals.isfinite().all()


def test_a_baseline_learns_what_is_linear_in_the_states() -> None:
    torch.manual_seed(0)
    baseline, slope = Baseline(4, ridge=1e-6).double(), torch.randn(4).double()
    states, real = torch.randn(6, 5, 4).double(), torch.ones(6, 5, dtype=torch.bool)
    real[2:, 3:] = False
    returns = states @ slope + 0.7
    states[~real] = 100.0  # what is not real does not count
    assert float(baseline(states).abs().max()) == 0  # nothing is expected before something was seen
    baseline.fit(states, returns, real)
    torch.testing.assert_close(baseline(states)[real], returns[real], rtol=1e-4, atol=1e-4)
    found = baseline.state_dict()
    other = Baseline(4).double()
    other.load_state_dict(found)
    torch.testing.assert_close(other(states), baseline(states))


def test_what_begins_a_segment_is_told() -> None:
    model, words = captioner("hrl"), captions()
    looked: Any = model.look(model.encode(videos(), RAGGED), words)
    assert torch.equal(looked.choices["segment"]["begins"].bool(), rolled(model, words).opened)


def test_goals_are_compared_by_their_direction() -> None:
    model, words = captioner("hrl"), captions(rows=6, words=8)
    memory = model.encode(videos(), RAGGED)
    found, _ = model.roll(memory, words, model.begin(memory, 6))
    alike = model.look(memory, words).matrices["how alike goals are"].values
    torch.testing.assert_close(alike, alike.transpose(2, 3))
    expected = torch.cosine_similarity(found.goals[:, :, 1:], found.goals[:, :, :-1], dim=-1)
    torch.testing.assert_close(alike.diagonal(1, 2, 3), expected)
    within = torch.eye(8, dtype=torch.bool).expand_as(alike).clone()  # a word and itself, or the next of its segment
    within.diagonal(1, 2, 3).copy_(~found.opened[:, :, 1:])
    torch.testing.assert_close(alike[within], torch.ones_like(alike[within]))


def test_the_manager_looked_where_it_looked_when_it_set_the_goal() -> None:
    model, words = captioner("hrl"), captions(rows=6, words=8)
    memory, opened = model.encode(videos(), HOLES), rolled(model, words).opened
    looked: Any = model.look(memory, words)
    state, last = model.begin(memory, 6), {}
    for place in range(8):
        _, now = model.manager.attention.look(state.manager[0], memory.manager, memory.masks)
        new = opened[:, :, place, None]
        last = {m: torch.where(new, weights, last.get(m, weights)) for m, weights in now.items()}
        for m, weights in last.items():
            torch.testing.assert_close(looked.matrices[f"manager: {m}"].values[:, :, place], weights)
        state = model.decode(memory, words[:, :, place : place + 1], state).state
