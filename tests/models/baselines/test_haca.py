"""HACA: two levels of time, and a memory of the words before that no padding and no other sentence reaches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.errors import UserError
from hoca.models import create
from hoca.models.baselines.haca import REMEMBER, HighEncoder
from hoca.models.parts.history import LevelState
from hoca.models.trees import map_tensors

from ..test_contract import captioner, sizes
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos


def test_a_word_watches_listens_and_remembers_in_shares_that_sum_to_one() -> None:
    model: Any = captioner("haca")
    looked = model.look(model.encode(videos(), HOLES), captions())
    assert len(looked.choices) == 2  # of the global and of the local decoder
    for shares in looked.choices.values():
        assert list(shares) == [*WIDTHS, REMEMBER]
        torch.testing.assert_close(sum(shares.values()), torch.ones(3, 2, 4).double())
        for modality, length in HOLES.items():
            assert shares[modality][length == 0].abs().max() == 0
        assert shares[REMEMBER].min() > 0
    assert torch.equal(looked.shares["image"], list(looked.choices.values())[1]["image"])


def test_one_modality_leaves_the_choice_of_watching_and_remembering() -> None:
    model: Any = create("haca", {"image": 5}, VOCABULARY, hidden=4, max_steps=6)
    looked = model.eval().look(model.encode({"image": torch.randn(3, 4, 5)}, {}), captions())
    for shares in looked.choices.values():
        assert list(shares) == ["image", REMEMBER]
        assert float(shares[REMEMBER].detach().max()) < 1


def test_a_word_remembers_what_was_before_it() -> None:
    model: Any = captioner("haca")
    looked = model.look(model.encode(videos(), RAGGED), captions(words=5))
    for name in ("words remembered in short", "words remembered in detail"):
        weights = looked.matrices[name].values
        assert weights.shape == (3, 2, 5, 5)
        torch.testing.assert_close(weights.sum(3), torch.ones(3, 2, 5).double())
        assert not weights.triu(1).any()
        assert bool((weights.tril() > 0).eq(torch.ones(5, 5).tril().bool()).all())


def test_what_is_remembered_is_what_gives_the_context() -> None:
    """The first word of the inner decoder remembers the start alone; the second what its own formula says."""
    model, words = captioner("haca"), captions()
    memory = model.encode(videos(), RAGGED)
    begun = model.begin(memory, 2)
    after = model.decode(memory, words[:, :, :1], begun).state
    inner, recall = model.inner, model.inner.recall
    keys = torch.stack([recall.project(begun.inner.h), recall.project(after.inner.h)], dim=2)  # [B, R, 2, D]
    scores = torch.tanh(recall.query(after.inner.h)[:, :, None] + keys) @ recall.channel
    looked = model.look(memory, words).matrices["words remembered in detail"].values
    assert inner.history > 2
    torch.testing.assert_close(looked[:, :, 0, 0], torch.ones(3, 2).double())
    torch.testing.assert_close(looked[:, :, 1, :2], scores.softmax(-1))


def test_what_is_remembered_is_the_same_word_by_word() -> None:
    """A history of three: the oldest words have no weight, whatever way they were said."""
    model: Any = create("haca", WIDTHS, VOCABULARY, **sizes("haca") | {"history": 3}).double().eval()
    memory, words = model.encode(videos(), RAGGED), captions(words=6)
    whole = model.look(memory, words).matrices["words remembered in detail"].values
    torch.testing.assert_close(whole.sum(3), torch.ones(3, 2, 6).double())
    state = model.begin(memory, 2)
    for place in range(6):
        _, state, ((_, looked),) = model._roll(memory, words[:, :, place : place + 1], state)
        in_ring = [(before, before % 3) for before in range(max(0, place - 2), place + 1)]
        for before, where in in_ring:
            torch.testing.assert_close(whole[:, :, place, before], looked.recalled[..., where])
        assert not whole[:, :, place, : max(0, place - 2)].any()


def test_the_global_decoder_shows_its_chunks() -> None:
    model: Any = captioner("haca")
    memory = model.encode(videos(), HOLES)
    chunks = model.look(memory, captions()).matrices["chunks of audio in short"]
    assert (chunks.columns.count, chunks.columns.chunk) == (5, 3)
    assert chunks.values.shape == (3, 2, 4, 2)
    assert not chunks.values[1, :, :, 1].any()  # three steps are one chunk


def high_encoder(chunk: int) -> HighEncoder:
    config: Any = captioner("haca").config
    config = type(config).of(WIDTHS, **sizes("haca") | {"chunk": dict.fromkeys(WIDTHS, chunk)})
    return HighEncoder(config, "image").double()


def test_chunks_of_one_step_give_the_high_encoder_the_low_steps_themselves() -> None:
    high, low = high_encoder(1), torch.randn(2, 5, 16).double()
    lstm = torch.nn.LSTM(16, 5, batch_first=True).double()
    lstm.load_state_dict({f"{key}_l0": value for key, value in high.cell.state_dict().items()})
    found, real = high(low, torch.ones(2, 5, dtype=torch.bool))
    torch.testing.assert_close(found, lstm(low)[0])  # h and c are kept from chunk to chunk
    assert real.all()


def test_a_clip_shorter_than_a_chunk_has_one_high_step() -> None:
    high, low = high_encoder(4), torch.randn(2, 6, 16).double()
    real = torch.arange(6) < torch.tensor([[3], [5]])
    found, here = high(low, real)
    assert here.tolist() == [[True, False], [True, True]]
    assert found[0, 1].abs().max() == 0
    alone, _ = high(low[:1, :3], real[:1, :3])
    torch.testing.assert_close(found[:1, :1], alone)


def test_places_of_the_history_that_are_not_filled_are_not_looked_at() -> None:
    model, words = captioner("haca"), captions()
    memory = model.encode(videos(), RAGGED)
    state = model.decode(memory, words[:, :, :2], model.begin(memory, 2)).state
    empty = torch.arange(3, model.config.history)  # filled are the state before the words and those after the two

    def dirt(level: LevelState) -> LevelState:
        keys, values = (part.index_fill(2, empty, float("nan")) for part in (level.keys, level.values))
        return level._replace(keys=keys, values=values)

    dirty = state._replace(outer=dirt(state.outer), inner=dirt(state.inner))
    found, expected = (model.decode(memory, words[:, :, 2:], each).logits for each in (dirty, state))
    assert found.isfinite().all()
    torch.testing.assert_close(found, expected)


def test_a_full_history_forgets_the_oldest_words_in_a_row_as_one_by_one() -> None:
    options = sizes("haca") | {"history": 3}
    model = create("haca", WIDTHS, VOCABULARY, **options).double().eval()
    memory, words = model.encode(videos(), RAGGED), captions(words=9)
    whole = model.decode(memory, words, model.begin(memory, 2))
    for size in (1, 2, 4):
        state, logits = model.begin(memory, 2), []
        for part in words.split(size, dim=2):
            decoded = model.decode(memory, part, state)
            state = decoded.state
            logits.append(decoded.logits)
        torch.testing.assert_close(torch.cat(logits, dim=2), whole.logits)
    longer = create("haca", WIDTHS, VOCABULARY, **options | {"history": 10}).double().eval()
    longer.load_state_dict(model.state_dict())
    found = longer.decode(memory, words, longer.begin(memory, 2)).logits
    torch.testing.assert_close(found[:, :, :3], whole.logits[:, :, :3])  # nothing was forgotten yet
    assert not torch.allclose(found[:, :, 4:], whole.logits[:, :, 4:])


def test_modalities_in_another_order_with_their_weights_change_nothing() -> None:
    model, features, words = captioner("haca"), videos(), captions()
    turned = {m: WIDTHS[m] for m in reversed(WIDTHS)}
    other = create("haca", turned, VOCABULARY, **sizes("haca")).double().eval()
    other.load_state_dict(model.state_dict())
    given = {m: features[m] for m in turned}
    torch.testing.assert_close(other(given, HOLES, words), model(features, HOLES, words))


def test_hypotheses_take_their_own_history_with_them() -> None:
    """After the order is changed, each remembers the words of its own sentence."""
    model, words = captioner("haca"), captions(rows=2)
    memory = model.encode(videos(), RAGGED)
    state = model.decode(memory, words[:, :, :3], model.begin(memory, 2)).state
    swapped = map_tensors(lambda x: x.flip(1), state)
    found = model.decode(memory, words[:, :, 3:], swapped).logits
    said = torch.cat([words.flip(1)[:, :, :3], words[:, :, 3:]], dim=2)
    expected = model.decode(memory, said, model.begin(memory, 2)).logits
    torch.testing.assert_close(found, expected[:, :, 3:])


def test_a_chunk_of_a_modality_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="chunk names 'sound', which is no modality: known: image, motion, audio"):
        create("haca", WIDTHS, VOCABULARY, chunk={"sound": 4})
