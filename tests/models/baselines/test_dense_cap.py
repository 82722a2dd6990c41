"""DenseVidCap: what is chosen is what is attended to, and several choices are unlike each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hoca.generation import SentenceLimits, beam_search
from hoca.models import CaptionModel, create
from hoca.models.baselines.dense_cap import LEXICAL
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.mil import probability
from hoca.training.objectives import TeacherForcing

from ..test_contract import REFERENCES, batch_of, captioner, objective, sizes, whole_captions
from ..tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, captions, videos

LONG = {m: torch.randn(2, 6, width).double() for m, width in WIDTHS.items()}


def with_weights_of(model: CaptionModel, **options: Any) -> Any:
    other = create("dense-cap", WIDTHS, VOCABULARY, **sizes("dense-cap") | options).double().eval()
    other.load_state_dict(model.state_dict())
    return other


def test_words_attend_to_the_chosen_steps_alone() -> None:
    model: Any = captioner("dense-cap")
    memory = model.encode(LONG, {})
    looked = model.look(memory, captions(2))
    for m, weights in looked.attention.items():
        assert weights.shape == (2, 2, 4, 6)
        for video in range(2):
            attended = weights[video].flatten(0, 1).amax(0).nonzero().flatten().tolist()
            assert attended == memory.chosen[m][video].tolist() == sorted(attended)
            assert len(attended) == 3


def test_with_room_for_every_step_it_is_an_attentive_captioner_over_all_of_them() -> None:
    model, words = captioner("dense-cap"), captions()
    every: Any = with_weights_of(model, steps=6)
    features = videos()
    found = every.encode(features, RAGGED)
    encoded = every.encoder(FeatureBatch.of(every.config, features, RAGGED))
    for m, x in encoded.items():
        p = torch.sigmoid(every.detectors(m, x)) * every.lexicon.listed
        both = torch.cat([x, every.seen_words[m](p)], dim=-1)
        for video, length in enumerate(RAGGED[m].tolist()):
            expected, _ = every.tell.lstms[m](both[video : video + 1, :length])
            torch.testing.assert_close(found.encoded[m][video, :length], expected[0])
    more = with_weights_of(model, steps=9)(features, RAGGED, words)
    torch.testing.assert_close(more, every(features, RAGGED, words))


def test_words_that_are_seen_decide_what_is_chosen() -> None:
    model = with_weights_of(captioner("dense-cap"), steps=1, coverage=0.0)
    encoded = model.encoder(FeatureBatch.of(model.config, LONG, {}))
    memory = model.encode(LONG, {})
    for m, x in encoded.items():
        p = torch.sigmoid(model.detectors(m, x)) * model.lexicon.listed
        assert memory.chosen[m].flatten().tolist() == p.sum(-1).argmax(1).tolist()


def test_several_sequences_are_unlike_and_give_captions_to_be_ranked() -> None:
    model: Any = with_weights_of(captioner("dense-cap"), steps=2, novelty=50.0)
    memories = model.sequences(LONG, {}, count=2)
    torch.testing.assert_close(memories[0].encoded, model.encode(LONG, {}).encoded)  # the first does not change
    assert any(not torch.equal(memories[0].chosen[m], memories[1].chosen[m]) for m in WIDTHS)
    scores = []
    for memory in memories:
        found = beam_search(model, memory, SentenceLimits(max_length=4), width=2)
        said = (found.words[:, 0, 1:] != VOCABULARY.pad).sum(1)
        scores.append(found.logprob[:, 0] / said)
    assert torch.stack(scores).isfinite().all()


def test_its_views_are_as_many_as_asked_for_and_the_first_is_what_it_is_scored_by() -> None:
    model: Any = with_weights_of(captioner("dense-cap"), steps=2, sequences=4)
    views = model.views(LONG, {})
    assert len(views) == 4
    torch.testing.assert_close(views[0].encoded, model.encode(LONG, {}).encoded)
    assert len(with_weights_of(model, steps=6, sequences=4).views(LONG, {})) == 1  # all steps: there is no other choice


def test_each_step_is_shown_with_what_it_added_and_the_words_in_it() -> None:
    model: Any = with_weights_of(captioner("dense-cap"), steps=2, sequences=2, novelty=3.0)
    features, words = videos(), captions()
    views = model.views(features, HOLES)
    looked = model.look(views[0], words)
    batch = FeatureBatch.of(model.config, features, HOLES)
    for m, x in model.encoder(batch).items():
        p = torch.sigmoid(model.detectors(m, x))[:, :, model.lexicon.listed]
        seen = looked.matrices[f"words seen in {m}"]
        assert seen.rows.names == tuple(looked.found["words"])
        gained = looked.matrices[f"steps of {m} chosen"]
        assert gained.rows.names == ("view 1", "view 2")
        for video, real in enumerate(HOLES[m].tolist()):
            torch.testing.assert_close(seen.values[video, 1, :, :real], p[video, :real].T)
            for number, view in enumerate(views):
                steps = gained.values[video, 0, number].nonzero().flatten().tolist()
                assert steps == view.chosen[m][video, : min(real, 2)].tolist()
            if real:
                chosen = views[0].chosen[m][video, : min(real, 2)]
                unit = torch.nn.functional.normalize(x[video, :real], dim=-1)
                covered = (unit @ unit.T).clamp(min=0)[chosen].amax(0).sum()
                value = p[video, chosen].amax(0).sum() + model.config.coverage * covered
                torch.testing.assert_close(gained.values[video, 0, 0].sum(), value)


@pytest.mark.parametrize("video", [0, 1, 2])
def test_the_bag_of_a_video_is_all_its_steps_of_all_its_modalities(video: int) -> None:
    model: Any = captioner("dense-cap")
    features = videos()
    memory, batch = model.encode(features, HOLES), FeatureBatch.of(model.config, features, HOLES)
    kept = 1.0
    for m, x in model.encoder(batch).items():
        steps = x[video, : int(HOLES[m][video])]
        kept = kept * (1 - torch.sigmoid(model.detectors(m, steps))).prod(0)
    torch.testing.assert_close(probability(memory.missed[video]), 1 - kept)
    looked = model.look(memory, captions())
    for word, id in (("dog", VOCABULARY["dog"]), ("red", VOCABULARY["red"])):
        place = model.lexicon.ids.tolist().index(id)
        torch.testing.assert_close(looked.found["words"][word][video], (1 - kept)[place])


def test_its_loss_is_that_of_the_words_in_all_captions_of_a_video() -> None:
    model: Any = captioner("dense-cap")
    words, features = whole_captions(), videos()
    losses = TeacherForcing(model, objective(model))(batch_of(features, HOLES, words, model))
    missed, expected = model.encode(features, HOLES).missed, 0.0
    for video, count in enumerate((2, 2, 1)):
        labels = model.targets(REFERENCES[video])[LEXICAL].double()
        each = torch.nn.functional.binary_cross_entropy(probability(missed[video]), labels, reduction="sum")
        expected += count * float(each.detach())
    assert float(losses[LEXICAL].loss.detach()) == pytest.approx(expected)
    assert losses[LEXICAL].weight == model.config.lexical_weight
