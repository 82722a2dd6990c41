"""Training in stages: beginning from a trained model, leaving modalities out, rewarding what is drawn."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import hoca
from hoca.data import Batch, Batches, FolderDataset, Vocabulary
from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.metrics import Evaluator
from hoca.metrics.reward import CiderReward
from hoca.training import Recipe, read_checkpoint, train, write_checkpoint
from hoca.training.checkpoint import Checkpoints
from hoca.training.evaluation import Search
from hoca.training.leaving_out import leave_modalities_out, leave_steps_out
from hoca.training.reward import RewardObjective

from .tiny import column, tiny, write_captions, write_dataset


@pytest.fixture(scope="module")
def first(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny(tiny_data, tmp_path_factory.mktemp("stages") / "first", epochs=8))


def weights(run: Path) -> dict[str, Tensor]:
    return read_checkpoint(Checkpoints(run).best).part("model")


class TestBeginning:
    def test_the_second_stage_goes_on_where_the_first_ended(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        second = train(tiny(tiny_data, tmp_path / "second", start=str(first), epochs=1, learning_rate=0.0))
        kept, went = weights(first), weights(second)
        assert kept.keys() == went.keys()
        for key in kept:
            torch.testing.assert_close(went[key], kept[key])

    def test_sizes_come_from_the_start_and_dropout_from_the_recipe(
        self, first: Path, tiny_data: Path, tmp_path: Path
    ) -> None:
        second = train(tiny(tiny_data, tmp_path / "run", start=str(first), epochs=1, hidden=99, dropout=0.25))
        assert hoca.load(second).config.hidden == 8
        assert hoca.load(second).config.dropout == 0.25

    def test_new_words_are_learned_and_old_ones_keep_their_places(self, first: Path, tmp_path: Path) -> None:
        data = write_dataset(tmp_path / "data")
        lines = [{"id": id, "split": "train", "captions": ["a zebra"]} for id in FeatureStore(data / "features").ids()]
        write_captions(data, lines)
        second = train(tiny(data, tmp_path / "run", start=str(first), epochs=8))
        old, new = hoca.load(first).vocabulary.words, hoca.load(second).vocabulary.words
        assert new == [*old, "zebra"]
        dataset = FolderDataset(data)
        model = hoca.load(second)
        memory = model.encode(*dataset.padded([lines[0]["id"]]))
        assert model.search(model, memory).texts(model.vocabulary)[0][0] == "a zebra"

    def test_a_dataset_without_a_modality_that_the_start_has(self, first: Path, tmp_path: Path) -> None:
        data = write_dataset(tmp_path / "data", widths={"image": 6, "motion": 5})
        second = train(tiny(data, tmp_path / "run", start=str(first), epochs=1))
        assert list(hoca.load(second).config.modalities) == ["image", "motion", "audio"]
        assert set(hoca.load(second).specification) == {"image", "motion", "audio"}

    def test_other_features_are_refused(self, first: Path, tmp_path: Path) -> None:
        wider = write_dataset(tmp_path / "wider", widths={"image": 7})
        with pytest.raises(UserError, match=r"trained on image features of test .* 6 wide.* 7 wide: extract them"):
            train(tiny(wider, tmp_path / "a", start=str(first)))
        foreign = write_dataset(tmp_path / "foreign", widths={"image": 6, "smell": 4})
        with pytest.raises(UserError, match="also has smell: leave it out with modalities="):
            train(tiny(foreign, tmp_path / "b", start=str(first)))

    def test_an_edited_start_is_told(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        found = read_checkpoint(Checkpoints(first).best)
        del found.tensors["model.output.linear.bias"]
        write_checkpoint(tmp_path / "edited.safetensors", found)
        with pytest.raises(UserError, match="do not fit its own configuration"):
            train(tiny(tiny_data, tmp_path / "run", start=str(tmp_path / "edited.safetensors")))

    def test_a_run_with_a_start_resumes(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        recipe = tiny(tiny_data, tmp_path / "run", start=str(first), epochs=1)
        train(recipe)
        train(Recipe(**asdict(recipe) | {"epochs": 2}), resume=True)
        whole = tiny(tiny_data, tmp_path / "whole", start=str(first), epochs=2)
        train(whole)
        assert column(tmp_path / "run", "loss") == column(tmp_path / "whole", "loss")

    def test_a_given_vocabulary_is_the_models(self, tiny_data: Path, tmp_path: Path) -> None:
        Vocabulary(["a", "bell", "unheard"]).save(tmp_path / "vocabulary.json")
        run = train(tiny(tiny_data, tmp_path / "run", vocabulary=str(tmp_path / "vocabulary.json"), epochs=1))
        assert hoca.load(run).vocabulary.words == ["a", "bell", "unheard"]


class TestModalityDropout:
    def batch(self, videos: int = 4000) -> Batch:
        lengths = {"image": torch.full((videos,), 5), "motion": torch.full((videos,), 4), "audio": torch.zeros(videos)}
        lengths["audio"][: videos // 2] = 3
        lengths = {name: value.long() for name, value in lengths.items()}
        return Batch([], {}, lengths, torch.empty(0), 0, 0)

    def test_one_always_stays_and_nothing_appears(self) -> None:
        before = self.batch()
        after = leave_modalities_out(before, 0.6)
        total = torch.stack(list(after.lengths.values())).sum(0)
        assert bool((total > 0).all())
        for name, length in after.lengths.items():
            assert bool(((length == before.lengths[name]) | (length == 0)).all())

    def test_as_often_as_asked(self) -> None:
        after = leave_modalities_out(self.batch(20_000), 0.3)
        missing = float((after.lengths["image"][:10_000] == 0).float().mean())
        assert missing == pytest.approx(0.3 - 0.3**3, abs=0.02)  # all three would be missing: all stay

    def test_none_by_default(self) -> None:
        batch = self.batch(4)
        assert leave_modalities_out(batch, 0.0) is batch

    def test_a_model_trained_so_captions_from_any_modality(self, tiny_data: Path, tmp_path: Path) -> None:
        run = train(tiny(tiny_data, tmp_path / "run", modality_dropout=0.3, step_dropout=0.3, epochs=2))
        assert np.isfinite(column(run, "loss")).all()

    def test_the_steps_that_stay_keep_their_order(self) -> None:
        lengths = torch.arange(500) % 9
        steps = torch.arange(1.0, 9.0).expand(500, -1) * (torch.arange(8) < lengths[:, None])
        before = Batch([], {"image": steps[..., None].expand(-1, -1, 3)}, {"image": lengths}, torch.empty(0), 0, 0)
        after = leave_steps_out(before, 0.4)
        assert bool(((after.lengths["image"] == 0) == (lengths == 0)).all())
        for length, values in zip(after.lengths["image"], after.features["image"][..., 0], strict=True):
            kept = values[:length]
            assert bool((kept > 0).all())
            assert bool((kept.diff() > 0).all())
        several = lengths > 4
        share = float(after.lengths["image"][several].sum() / lengths[several].sum())
        assert share == pytest.approx(0.6, abs=0.05)


REWARD = {"objective": "reward", "samples": 4, "likelihood": 0.0, "learning_rate": 0.01, "dropout": 0.0}


class TestReward:
    def test_what_earns_more_becomes_likelier(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        second = train(tiny(tiny_data, tmp_path / "run", start=str(first), epochs=6, **REWARD))
        assert self.expected(second, tiny_data) > self.expected(first, tiny_data) + 0.1

    def expected(self, run: Path, data: Path) -> float:
        """The mean reward of captions that the model draws of its training videos."""
        model, dataset = hoca.load(run), FolderDataset(data)
        recipe = tiny(data, run, objective="reward", samples=40)
        objective = RewardObjective(recipe, dataset.videos("train"), model.vocabulary)
        ids = [video.id for video in dataset.videos("train")]
        features, lengths = dataset.padded(ids)
        batch = Batch(ids, features, lengths, torch.empty(0), 0, 0)
        return float(objective._rewards(batch, objective._draw(model, batch)).mean())

    def test_a_beam_learns_to_prefer_what_earns_more(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        second = train(tiny(tiny_data, tmp_path / "run", start=str(first), epochs=6, drawn="beam", **REWARD))
        expected = [-loss for loss in column(second, "loss")]
        assert expected[-1] > expected[0] + 0.2

    def test_the_baseline_is_the_mean_of_the_others(self, tiny_data: Path, tmp_path: Path) -> None:
        dataset = FolderDataset(tiny_data)
        vocabulary = Vocabulary.build(dataset.corpus.captions("train"))
        objective = RewardObjective(tiny(tiny_data, tmp_path, samples=3), dataset.videos("train"), vocabulary)
        video = dataset.videos("train")[1]
        texts = [*video.captions[:2], "something"]
        drawn = torch.full((1, 3, 10), vocabulary.pad)
        for row, text in enumerate(texts):
            ids = vocabulary.encode(text)
            drawn[0, row, : len(ids)] = torch.tensor(ids)
        rewards = objective._rewards(Batch([video.id], {}, {}, torch.empty(0), 0, 0), drawn)
        logprob = torch.zeros(1, 3, requires_grad=True)
        (advantage,) = torch.autograd.grad(objective._earned(logprob, rewards).sum(), logprob)
        assert float(advantage.sum()) == pytest.approx(0.0, abs=1e-5)
        assert int(advantage.argmin()) == 2

    def test_a_beam_earns_what_its_sentences_are_expected_to(self, tiny_data: Path, tmp_path: Path) -> None:
        dataset = FolderDataset(tiny_data)
        vocabulary = Vocabulary.build(dataset.corpus.captions("train"))
        objective = RewardObjective(tiny(tiny_data, tmp_path, drawn="beam"), dataset.videos("train"), vocabulary)
        logprob = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]]).mul(0.01).log()
        earned = objective._earned(logprob, torch.tensor([[1.0, 2.0, 3.0], [4.0, 2.0, 9.0]]))
        assert earned.tolist() == pytest.approx([1.4, 3.0])

    def test_what_is_drawn_keeps_to_the_search(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        model, dataset = hoca.load(first), FolderDataset(tiny_data)
        recipe = tiny(tiny_data, tmp_path, drawn="beam", no_repeat=1, max_length=4)
        ids = [video.id for video in dataset.videos("train")]
        features, lengths = dataset.padded(ids)
        objective = RewardObjective(recipe, dataset.videos("train"), model.vocabulary)
        drawn = objective._draw(model, Batch(ids, features, lengths, torch.empty(0), 0, 0))
        sentences = [model.vocabulary.decode(words).split() for words in drawn.flatten(0, 1)]
        assert all(len(set(words)) == len(words) <= 4 for words in sentences)

    def test_breaking_off_earns_less_than_ending(self) -> None:
        references = {1: [[5, 6, 7, 2]], 2: [[8, 9, 2]]}
        reward = CiderReward(references)
        ended, broken = reward([1, 1], np.array([[5, 6, 7, 2], [5, 6, 7, -1]]))
        assert ended > broken

    def test_the_end_of_a_sentence_is_a_word_of_the_reward(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        """The loss by hand: CIDEr-D of the beam's sentences with `end` after every caption, weighed by p(sentence)."""
        model, dataset = hoca.load(first), FolderDataset(tiny_data)
        recipe = tiny(tiny_data, tmp_path, drawn="beam", **REWARD)
        objective = RewardObjective(recipe, dataset.videos("train"), model.vocabulary)
        (batch,) = Batches(dataset, "train", model.vocabulary, batch=1000)
        found = replace(Search.of(recipe), beam=4)(model, model.encode(batch.features, batch.lengths))
        ended = {video.id: [f"{caption} end" for caption in video.captions] for video in dataset.videos("train")}
        evaluator, rewards = Evaluator(ended), []
        for place in range(4):
            texts = {id: f"{of[place]} end" for id, of in zip(batch.ids, found.texts(model.vocabulary), strict=True)}
            scores = evaluator.evaluate(texts, ("CIDEr",)).per_video
            rewards.append([scores[id]["CIDEr"] for id in batch.ids])
        earned = (found.logprob.softmax(1) * torch.tensor(rewards).T).sum(1).mean()
        loss = float(objective(model, model, batch).detach())
        assert loss == pytest.approx(-float(earned) * batch.caption_count, rel=1e-4)

    def test_the_likelihood_takes_part(self, first: Path, tiny_data: Path, tmp_path: Path) -> None:
        changes = {"objective": "reward", "samples": 2, "dropout": 0.0, "epochs": 1, "learning_rate": 0.0}
        alone, both = (
            train(tiny(tiny_data, tmp_path / f"run-{weight}", start=str(first), likelihood=weight, **changes))
            for weight in (0.0, 1.0)
        )
        assert column(both, "loss")[0] > column(alone, "loss")[0] + 1
